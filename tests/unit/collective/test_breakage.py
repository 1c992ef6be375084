"""What each rank raises for what has broken a communicator."""

from jupyter_dist.collective.breakage import Breakage
from jupyter_dist.errors import CommunicatorError, PeerFailed


def test_a_reset_blames_no_rank_and_reads_alike_on_all():
    reset = Breakage("reset", 0, "the connection between rank 0 (a) and rank 1 (b) was reset", 1)
    errors = [reset.error(viewer) for viewer in range(3)]
    assert {type(error) for error in errors} == {CommunicatorError}
    assert len({str(error) for error in errors}) == 1


def test_of_a_peer_that_failed_its_rank_is_told():
    error = Breakage("failed", 2, "is lost").error(0)
    assert isinstance(error, PeerFailed)
    assert error.rank == 2
