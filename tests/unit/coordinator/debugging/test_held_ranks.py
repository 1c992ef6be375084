import pytest

from jupyter_dist.protocol.messages import (
    HoldDeadlines,
    LeftDebugger,
    RanksStopping,
    StopNow,
    StoppedInDebugger,
    StopRanks,
)


@pytest.fixture
def held(cluster):
    return cluster.parts.held


@pytest.fixture
def say(cluster, held):
    """Let a rank say where it is stopped (nowhere: that it goes on), at a time."""

    def tell(rank, place="", now_s=1.0):
        message = StoppedInDebugger(rank, place) if place else LeftDebugger(rank)
        held.on_engine(cluster.roster[rank], message, now_s)

    return tell


def test_all_ranks_hold_their_deadlines_from_the_first_stop_to_the_last(cluster, held, say):
    say(2, "In[5]:7", 1.0)
    say(3, "In[5]:8", 2.0)
    assert (held.ranks, cluster.roster[2].stopped_at) == ((2, 3), "In[5]:7")
    say(2, now_s=3.0)
    everyone = range(4)
    assert cluster.sender.sent_to_ranks(HoldDeadlines) == {
        rank: [HoldDeadlines(True)] for rank in everyone
    }
    say(3, now_s=5.0)
    assert cluster.sender.sent_to_ranks(HoldDeadlines)[0][1:] == [HoldDeadlines(False)]
    assert held.time.held_s(0.0, 9.0) == 4.0


def test_a_stopped_rank_that_is_lost_holds_nothing(cluster, held, say):
    say(2, "In[5]:7")
    cluster.lose(2)
    held.look(4.0)
    assert held.ranks == ()
    assert cluster.sender.sent_to_ranks(HoldDeadlines)[1][-1] == HoldDeadlines(False)


def test_ranks_that_run_a_cell_are_stopped_and_told_of(cluster, held, say):
    for rank in (0, 1, 2):
        cluster.roster[rank].start_work("In[5]", 0.0)
    say(2, "In[5]:7")
    held.on_request(b"me", StopRanks("r1", (1, 2, 3)), 1.0)
    assert list(cluster.sender.sent_to_ranks(StopNow)) == [1]
    assert cluster.sender.told(RanksStopping, b"me") == [RanksStopping("r1", (1,))]
