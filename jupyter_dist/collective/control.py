"""What communicators need of the control channel: ranks meet, and find each other's values."""

from collections.abc import Sequence
from typing import Protocol

from jupyter_dist.protocol.codec import Frame

Brought = dict[int, list[Frame]]
"""What each rank of a meeting brought, by its rank in the world."""


class Control(Protocol):
    """The way to the coordinator, which sees every rank. Ranks are those of the whole cluster."""

    @property
    def cell_id(self) -> str:
        """The running cell, which has a name that no other has; empty outside."""

    def meet(  # noqa: PLR0913  (a meeting is all of this)
        self,
        purpose: str,
        kind: str,
        ranks: tuple[int, ...],
        frames: Sequence[Frame] = (),
        *,
        claim: str,
        agreement: str = "",
        site: str = "",
        root: int = -1,
        frame_counts: Sequence[int] | None = None,
        timeout_s: float,
    ) -> Brought:
        """Wait until all `ranks` are in their next meeting for this purpose.

        `kind` says what comes back: all_gather and gather (to the root) everybody's frames,
        broadcast the root's, scatter the ones that the root brought for this rank
        (`frame_counts[i]` of them for `ranks[i]`), barrier nothing. All must bring the same
        `claim`, which people read, and the same `agreement`, which nobody does.

        Raises CollectiveMismatch on every rank when claims differ, CollectiveTimeout naming those
        that have not come, PeerFailed when one left, was lost or has finished the cell,
        CommunicatorError outside a cell, UsageError when ranks do not run the cell or more than
        256 MiB would be sent.
        """

    def put(self, key: str, value: bytes) -> None:
        """Keep a value until the generation ends; another one for the same key replaces it."""

    def get(self, key: str, timeout_s: float) -> bytes:
        """Wait until some rank has put this value; raises CollectiveTimeout, PeerFailed."""
