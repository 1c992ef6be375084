"""A push: objects pass through as frames, or as a file in memory, never decoded here.

What is small goes to each engine as it is. What is large is named to the engines that can open the
coordinator's files in memory, and goes once to each other host, whose engines map it there: a big
array pushed to eight ranks of a host travels once, not eight times.
"""

from collections.abc import Sequence

from jupyter_dist.coordinator.cells.cell_run import CellParts
from jupyter_dist.coordinator.cells.payload import Payload, Placement
from jupyter_dist.coordinator.cells.transfers import Transfer
from jupyter_dist.model.transfer.pieces import LARGE_FROM_BYTES
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    ObjectsPushed,
    PushObjects,
    StoreObjects,
    TransferMoved,
)
from jupyter_dist.text.lists import name_push, name_some


class Push(Transfer):
    """One push under way."""

    def __init__(
        self,
        client: bytes,
        request: PushObjects,
        payload: Payload,
        transfer_id: str,
        parts: CellParts,
    ) -> None:
        """Take a request, and what it brings."""
        super().__init__(client, request, transfer_id, parts, "rebuilding")
        self.label = name_push(request.names)
        self._request = request
        self._payload = payload
        self._placement_id = f"{client.hex()}-{request.request_id}"
        self._placements: dict[str, Placement] = {}
        """By host; what lies there is removed even if no rank took it."""
        self._unplaced: dict[str, list[int]] = {}
        """Hosts, and their ranks, that have not confirmed a placement yet."""

    def _begin(self) -> None:
        file, ranks = self._payload.file, self.ranks
        if file is not None:
            engines = self._roster.engines
            self._store([rank for rank in ranks if engines[rank].shares_memory], file=file.name)
            ranks = tuple(rank for rank in ranks if not engines[rank].shares_memory)
        # Only now: while it waited a rank may have moved to another host.
        for host, members in self._roster.group_by_host(ranks).items():
            placement = Placement(host, self._placement_id, self._payload, self._sender)
            if self._payload.size_bytes >= LARGE_FROM_BYTES and placement.advance():
                self._placements[host], self._unplaced[host] = placement, members
            else:
                self._store(members)

    def on_place_taken(self, host: str, taken: pb.PlaceTaken) -> None:
        """Note how much has arrived in a host's memory, and send more."""
        if taken.request_id == self._placement_id and host in self._unplaced:
            self._placements[host].taken_bytes = taken.taken_bytes
            self._placements[host].advance()

    def on_placed(self, host: str, placed: pb.Placed) -> None:
        """Let a host's engines take what now lies in its memory; without room, send it to each."""
        if placed.request_id == self._placement_id:
            self._store(self._unplaced.pop(host, []), path=placed.path)

    def _store(self, ranks: Sequence[int], path: str = "", file: str = "") -> None:
        """Have ranks store what lies in a file, or else what is sent along."""
        names, counts = self._request.names, self._request.frame_counts
        sizes = self._payload.sizes if path or file else ()
        order = StoreObjects(self._id, names, counts, path, sizes, file)
        self._order(ranks, order, () if sizes else self._payload.frames())

    def _describe(self, of_ranks: str) -> TransferMoved:
        """Return how far it is: in the memory of the slowest host, else by ranks that have it."""
        total = self._payload.size_bytes
        if self._unplaced:
            moved = min(self._placements[host].taken_bytes for host in self._unplaced)
            where = f"to {name_some(list(self._unplaced))}"
            return TransferMoved(self.request_id, min(moved, total), total, where)
        moved = total * (len(self.ranks) - len(self._waiting)) // len(self.ranks)
        return TransferMoved(self.request_id, moved, total, f"taken in by {of_ranks}")

    def _hand_over(self) -> None:
        for placement in self._placements.values():
            placement.end()
        self._payload.close()
        self._sender.to_client(self.client, ObjectsPushed(self.request_id, self._problems))
