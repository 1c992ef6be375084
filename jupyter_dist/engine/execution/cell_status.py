"""How a cell has ended on this rank, by the error that it left."""

from collections.abc import Sequence

from jupyter_dist.errors import DistError, PeerFailed
from jupyter_dist.model.ranks.source_files import name_cells
from jupyter_dist.model.ranks.user_errors import causes, error_text, is_of, type_name
from jupyter_dist.protocol.messages import ErrorInfo


def judge(
    error: BaseException, traceback: Sequence[str], *, is_program: bool = False
) -> tuple[str, ErrorInfo]:
    """Return the status, and the error as it crosses to the notebook.

    A program may end with a status; a cell that calls exit() is told that this ends nothing.
    """
    peer = _find_peer_failure(error)
    if is_of(error, KeyboardInterrupt):
        status = "interrupted"
    elif peer is not None:
        status = "peer_failed" if peer.rank >= 0 else "interrupted"
    else:
        status = "raised"
    blamed = (peer.rank, peer.reason) if peer is not None else ()
    if is_of(error, SystemExit):
        text = error_text(error)
        if not is_program:
            text += " (the rank goes on; %dist_stop ends the cluster)"
        return status, ErrorInfo("SystemExit", text, (f"SystemExit: {text}",), *blamed)
    text = name_cells(error_text(error))
    return status, ErrorInfo(type_name(error), text, tuple(map(name_cells, traceback)), *blamed)


def _find_peer_failure(error: BaseException) -> PeerFailed | None:
    """Find the failure of a peer that the error is, or that user code has made it of.

    Another error of this package has a meaning of its own, whatever it comes from.
    """
    told = next((each for each in causes(error) if is_of(each, DistError)), None)
    return told if isinstance(told, PeerFailed) else None
