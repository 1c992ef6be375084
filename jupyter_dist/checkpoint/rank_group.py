"""What saving and restoring need of the other ranks: to exchange words, and arrays."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Progress(Protocol):
    """How far something is that takes long."""

    def add(self, nbytes: int) -> None:
        """Count bytes that are done; from any thread."""

    def close(self) -> None:
        """Show nothing new any more."""


class RankGroup(Protocol):
    """All ranks of the cluster, as one of them sees them while it saves or restores."""

    rank: int
    world_size: int
    """How many ranks there are; all of them take part."""
    hosts: tuple[str, ...]
    """Name of the host of each rank."""
    generation: int
    """Number of the rendezvous that gave the ranks their places."""
    cluster: str
    """Name of the cluster."""

    def gather(self, topic: str, payload: bytes, timeout_s: float) -> list[bytes]:
        """Bring `payload` and get what every rank has brought for this topic, in rank order.

        In a cell and, between cells, on a thread. All ranks call it in the same order with the
        same topic, which people read. Raises CollectiveTimeout naming the ranks that are late,
        CollectiveMismatch when topics differ, PeerFailed when a rank raised or was lost.
        """

    def collect(self, topic: str, payload: bytes, timeout_s: float) -> list[bytes]:
        """Bring `payload`: rank 0 gets what every rank has brought, others nothing; as `gather`.

        For what grows with the number of ranks, which not all need to have.
        """

    def broadcast(
        self,
        array: "NDArray[Any] | None",
        root: int,
        shape: tuple[int, ...],
        dtype: "np.dtype[Any]",
    ) -> "NDArray[Any]":
        """Return everybody the root's array, over the data path; on the main thread only.

        Elsewhere than on the root `array` may be None, or room for what comes.
        """

    def progress(self, label: str, total_bytes: int) -> Progress:
        """Open a bar in the running cell's output; between cells it shows nothing."""
