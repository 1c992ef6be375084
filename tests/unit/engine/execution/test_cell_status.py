"""How a cell has ended, by the error that it left and by what that error comes from."""

import pytest

from jupyter_dist.engine.execution.cell_status import judge
from jupyter_dist.errors import CheckpointFailed, PeerFailed

PEER = PeerFailed(2, "raised ValueError: bad")
STOPPED = PeerFailed(-1, "the cell was interrupted")


def come_from(error, cause):
    error.__cause__ = cause
    return error


def met_on_the_way(error, context):
    error.__context__ = context
    return error


@pytest.mark.parametrize(
    ("error", "status", "peer_rank"),
    [
        (ValueError("no"), "raised", -1),
        (KeyboardInterrupt(), "interrupted", -1),
        (PEER, "peer_failed", 2),
        (STOPPED, "interrupted", -1),
        (come_from(RuntimeError(), PEER), "peer_failed", 2),
        (met_on_the_way(SystemExit(1), PEER), "peer_failed", 2),
        (come_from(OSError(), come_from(RuntimeError(), PEER)), "peer_failed", 2),
        (come_from(RuntimeError(), STOPPED), "interrupted", -1),
        (met_on_the_way(KeyboardInterrupt(), PEER), "interrupted", 2),
        (come_from(CheckpointFailed("step 3"), PEER), "raised", -1),
        (come_from(RuntimeError(), come_from(CheckpointFailed("step 3"), PEER)), "raised", -1),
    ],
    ids=lambda part: f"{part!r}",
)
def test_the_status_follows_from_what_the_error_comes_from(error, status, peer_rank):
    found, info = judge(error, ())
    assert (found, info.ename, info.peer_rank) == (status, type(error).__name__, peer_rank)
    assert info.peer_reason == (PEER.reason if peer_rank == 2 else info.peer_reason)


def test_a_ring_of_causes_has_an_end():
    error = come_from(ValueError(), KeyError())
    error.__cause__.__cause__ = error
    assert judge(error, ())[0] == "raised"
