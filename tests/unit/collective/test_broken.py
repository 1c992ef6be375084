"""What each rank raises for what has broken a communicator."""

import pytest

from jupyter_dist.collective.broken import Breakage
from jupyter_dist.errors import (
    CollectiveMismatch,
    CollectiveTimeout,
    CommunicatorError,
    PeerFailed,
)
from tests.facts import assert_tells


def test_a_reset_blames_no_rank_and_reads_alike_on_all():
    reset = Breakage("reset", 0, "the connection between rank 0 (a) and rank 1 (b) was reset", 1)
    errors = [reset.error(viewer) for viewer in range(3)]
    assert {type(error) for error in errors} == {CommunicatorError}
    assert len({str(error) for error in errors}) == 1


@pytest.mark.parametrize(
    ("kind", "own", "others"),
    [
        ("failed", PeerFailed, PeerFailed),
        ("timeout", CollectiveTimeout, PeerFailed),
        ("left", CommunicatorError, PeerFailed),
    ],
)
def test_others_hear_of_a_rank_what_it_knows_of_itself(kind, own, others):
    breakage = Breakage(kind, 1, "waited 5 s for rank 2 in barrier() #1")
    assert type(breakage.error(1)) is own
    error = breakage.error(0)
    assert (type(error), error.rank) == (others, 1)


def test_each_rank_sees_a_mismatch_from_its_own_side():
    breakage = Breakage("mismatch", 1, "barrier() #1", 2, "barrier() #2")
    errors = [breakage.error(viewer) for viewer in (1, 2, 0)]
    assert {type(error) for error in errors} == {CollectiveMismatch}
    assert [error.rank for error in errors] == [1, 2, 1]
    assert errors[1].peer_call == "barrier() #1"


def test_a_mismatch_of_which_all_calls_were_seen_reads_alike_on_all_ranks():
    breakage = Breakage("mismatch", 1, "barrier() #1", 0, "barrier() #2", (1,), (0, 2))
    errors = [breakage.error(viewer) for viewer in range(3)]
    assert [error.rank for error in errors] == [1, 1, 1]
    (text,) = {str(error) for error in errors}
    assert_tells(text, "rank 1 called barrier() #1", "ranks 0,2 called barrier() #2")
