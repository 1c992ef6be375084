"""Lets ranks save before a job ends, where a program has said that it wants to."""

import contextlib
from typing import TYPE_CHECKING

from jupyter_dist.protocol.messages import AnnounceEnd, EndAnnounced

if TYPE_CHECKING:
    from jupyter_dist.cluster.session import Session

_PATIENCE_S = 40.0
"""Ranks have less than the 30 s that schedulers give."""


def announce_end(session: "Session", reason: str) -> str:
    """Tell ranks that they will be ended, and wait until they have saved, or their time is over.

    Return how that went; empty: no rank wants to know. Raise ClusterGone or NoAnswer. It may be
    called on any thread, also while a cell runs.
    """
    with contextlib.closing(session._new_line()) as line:  # noqa: SLF001  (it is our own)
        request = AnnounceEnd(line.new_request_id(), reason)
        return line.ask(request, EndAnnounced, timeout_s=_PATIENCE_S)[0].outcome
