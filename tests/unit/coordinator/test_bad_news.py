import pytest

from jupyter_dist.coordinator.bad_news import PATIENCE_S, BadNews


@pytest.fixture
def tell():
    """Tell how ranks have ended, at a time; gives what is said."""
    news = BadNews()

    def tell(now_s, running, **ended):
        statuses = {int(name[1:]): status for name, (status, _) in ended.items()}
        errors = {int(name[1:]): error for name, (_, error) in ended.items()}
        return news.tick(statuses, errors, running, now_s)

    return tell


RAISED = ("raised", "ValueError: boom")
LOST = ("lost", "RankLost: its process was killed by SIGKILL")


def test_an_error_is_told_once_while_others_go_on(tell):
    assert tell(1.0, (0, 2), r1=RAISED) == ""
    said = tell(1.1 + PATIENCE_S, (0, 2), r1=RAISED)
    assert said == ("rank 1 raised ValueError: boom; ranks 0,2 still run this cell (■ stops that)")
    assert tell(9.0, (0, 2), r1=RAISED) == ""


def test_a_loss_is_told_in_its_own_words(tell):
    tell(1.0, (0,), r1=LOST)
    assert tell(2.0, (0,), r1=LOST).startswith(
        "rank 1 is lost: its process was killed by SIGKILL; rank 0 still runs this cell"
    )


def test_several_are_told_together_and_later_ones_again(tell):
    tell(1.0, (0, 3), r1=RAISED, r2=RAISED)
    assert "(rank 2 failed too)" in tell(2.0, (0, 3), r1=RAISED, r2=RAISED)
    assert tell(3.0, (0,), r1=RAISED, r2=RAISED, r3=LOST) == ""
    assert "rank 3 is lost" in tell(4.0, (0,), r1=RAISED, r2=RAISED, r3=LOST)


def test_when_all_have_ended_the_cell_says_it_itself(tell):
    tell(1.0, (), r0=("ok", ""), r1=RAISED)
    assert tell(2.0, (), r0=("ok", ""), r1=RAISED) == ""


def test_ranks_that_were_released_are_no_news(tell):
    tell(1.0, (0,), r1=("peer_failed", "PeerFailed: rank 2"))
    assert tell(2.0, (0,), r1=("peer_failed", "PeerFailed: rank 2")) == ""
