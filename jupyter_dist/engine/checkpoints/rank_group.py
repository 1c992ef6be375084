"""The other ranks, as checkpoints ask for them: over the coordinator, and the data path."""

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jupyter_dist.collective.communicator import Communicator, NoCommunicator
from jupyter_dist.collective.control import Control
from jupyter_dist.engine.output.bar_collector import BarCollector, ProgressBar
from jupyter_dist.errors import CheckpointError
from jupyter_dist.model.hosts.rank import RankInfo

if TYPE_CHECKING:
    from jupyter_dist.checkpoint.rank_group import Progress

NO_PATH_CHUNK_BYTES = 8 << 20
"""Without a data path arrays go through the coordinator, which other ranks need as well."""


SHORTEST_BAR_BYTES = 4 << 20
"""Less than that is done before anybody could look."""


class Seat(NamedTuple):
    """The place of this rank in a generation of a cluster."""

    info: RankInfo
    generation: int
    cluster: str


class NoProgress:
    """Nobody looks."""

    def add(self, nbytes: int) -> None:
        """Count nothing."""

    def close(self) -> None:
        """Do nothing."""


class ByteBar:
    """A bar of bytes in the output of the running cell."""

    def __init__(self, bar: ProgressBar, label: str, total_bytes: int) -> None:
        self._bar = bar
        self._label = label
        self._total_bytes = total_bytes
        self._done_bytes = 0
        self._start_s = monotonic()
        self._show()

    def add(self, nbytes: int) -> None:
        """Move on."""
        self._done_bytes += nbytes
        self._show()

    def close(self) -> None:
        """Stay as it is."""
        self._bar.close()

    def _show(self) -> None:
        state = {
            "description": self._label,
            "n": self._done_bytes,
            "total": self._total_bytes,
            "unit": "B",
            "divisor": 1024,
        }
        self._bar.show(state, monotonic() - self._start_s)


class EngineRankGroup:
    """See checkpoint.rank_group.RankGroup.

    Without `communicator` and `bars` it is for a thread that goes on between cells.
    """

    def __init__(
        self,
        seat: Seat,
        control: Control,
        hosts: Sequence[str] = (),
        communicator: Communicator | None = None,
        bars: BarCollector | None = None,
    ) -> None:
        self.rank = seat.info.rank
        self.world_size = seat.info.world_size
        self.host = seat.info.host
        self.hosts = tuple(hosts)
        self.generation = seat.generation
        self.cluster = seat.cluster
        self._control = control
        self._communicator = communicator
        self._bars = bars
        self._everyone = tuple(range(self.world_size))

    def learn_hosts(self, timeout_s: float) -> None:
        """Ask all ranks where they are."""
        told = self.gather("checkpoint: where ranks are", self.host.encode(), timeout_s)
        self.hosts = tuple(host.decode() for host in told)

    def gather(self, topic: str, payload: bytes, timeout_s: float) -> list[bytes]:
        """Bring `payload` and get what every rank has brought for this topic, in rank order."""
        brought = self._control.meet(
            topic, "all_gather", self._everyone, [payload], claim=topic, timeout_s=timeout_s
        )
        return [bytes(brought[rank][0]) for rank in self._everyone]

    def collect(self, topic: str, payload: bytes, timeout_s: float) -> list[bytes]:
        """Bring `payload`, and on rank 0 get what every rank has brought, in rank order."""
        brought = self._control.meet(
            topic, "gather", self._everyone, [payload], claim=topic, root=0, timeout_s=timeout_s
        )
        return [bytes(brought[rank][0]) for rank in self._everyone] if self.rank == 0 else []

    def broadcast(
        self,
        array: "NDArray[Any] | None",
        root: int,
        shape: tuple[int, ...],
        dtype: "np.dtype[Any]",
    ) -> "NDArray[Any]":
        """Return everybody the root's array."""
        communicator = self._communicator
        if communicator is None:
            raise CheckpointError("arrays can be sent within a cell only. Restore in a cell.")
        output = np.empty(shape, dtype) if array is None else np.ascontiguousarray(array)
        output = output.reshape(shape)
        raw = output.reshape(-1).view(np.uint8)
        if isinstance(communicator, NoCommunicator):
            self._send_through_coordinator(raw, root, communicator.timeout_s)
        elif raw.size:
            communicator.broadcast(raw, root, out=raw)
        return output

    def _send_through_coordinator(
        self, raw: "NDArray[np.uint8]", root: int, timeout_s: float
    ) -> None:
        for start in range(0, raw.size, NO_PATH_CHUNK_BYTES):
            piece = raw[start : start + NO_PATH_CHUNK_BYTES]
            brought = self._control.meet(
                "checkpoint data",
                "broadcast",
                self._everyone,
                [piece.data] if self.rank == root else [],
                claim=f"checkpoint data from rank {root}",
                root=root,
                timeout_s=timeout_s,
            )
            if self.rank != root:
                piece[:] = np.frombuffer(brought[root][0], np.uint8)

    def progress(self, label: str, total_bytes: int) -> "Progress":
        """Open a bar in the running cell's output; between cells it shows nothing."""
        if self._bars is None or total_bytes < SHORTEST_BAR_BYTES:
            return NoProgress()
        return ByteBar(self._bars.open(f"checkpoint {label}"), label, total_bytes)
