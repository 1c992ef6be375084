import pytest

from jupyter_dist.coordinator.cells.failure_notice import PATIENCE_S, FailureNotice


@pytest.fixture
def tell():
    """Tell how ranks have ended, at a time; gives what is said."""
    news = FailureNotice()

    def tell(now_s, running, **ended):
        statuses = {int(name[1:]): status for name, (status, _) in ended.items()}
        errors = {int(name[1:]): error for name, (_, error) in ended.items()}
        return news.tick(statuses, errors, running, now_s)

    return tell


RAISED = ("raised", "ValueError: boom")
LOST = ("lost", "its process was killed by SIGKILL")


def test_an_error_is_told_once_while_others_go_on(tell):
    assert tell(1.0, (0, 2), r1=RAISED) == ""
    said = tell(1.1 + PATIENCE_S, (0, 2), r1=RAISED)
    assert said.startswith("rank 1 raised ValueError: boom; ranks 0,2 ")
    assert tell(9.0, (0, 2), r1=RAISED) == ""


def test_a_loss_is_told_in_its_own_words(tell):
    tell(1.0, (0,), r1=LOST)
    assert f": {LOST[1]}; rank 0 " in tell(2.0, (0,), r1=LOST)


def test_several_are_told_together_and_later_ones_again(tell):
    tell(1.0, (0, 3), r1=RAISED, r2=RAISED)
    assert "(rank 2 " in tell(2.0, (0, 3), r1=RAISED, r2=RAISED)
    assert tell(3.0, (0,), r1=RAISED, r2=RAISED, r3=LOST) == ""
    assert "rank 3 " in tell(4.0, (0,), r1=RAISED, r2=RAISED, r3=LOST)


def test_when_all_have_ended_the_cell_says_it_itself(tell):
    tell(1.0, (), r0=("ok", ""), r1=RAISED)
    assert tell(2.0, (), r0=("ok", ""), r1=RAISED) == ""


def test_ranks_that_were_released_are_no_news(tell):
    tell(1.0, (0,), r1=("peer_failed", "PeerFailed: rank 2"))
    assert tell(2.0, (0,), r1=("peer_failed", "PeerFailed: rank 2")) == ""
