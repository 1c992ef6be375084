"""What a push brings, and its way into the memory of hosts that cannot open the coordinator's."""

from collections.abc import Iterator, Sequence

from jupyter_dist.control.memory_file import MemoryFile
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.model.transfer.pieces import cut, offsets_in_file
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.codec import Frame

CHUNK_BYTES = 2 << 20
"""gRPC takes messages of up to 4 MiB."""
WINDOW_BYTES = 16 << 20
"""So much may be on its way to an agent, which confirms every 8 MiB."""


class Payload:
    """The frames of a push, each on its own, or all in a file in memory."""

    def __init__(
        self,
        frames: Sequence[Frame] = (),
        sizes: Sequence[int] = (),
        file: MemoryFile | None = None,
    ) -> None:
        """Take frames, or a file with frames of these sizes, which closes when this is dropped."""
        self._frames = frames
        self.file = file
        self.sizes = tuple(sizes) or tuple(memoryview(frame).nbytes for frame in frames)

    @property
    def size_bytes(self) -> int:
        """Of all frames together."""
        return sum(self.sizes)

    def frames(self) -> Sequence[Frame]:
        """Return the frames, for ranks that get them in a message."""
        if self.file is not None and not self._frames:
            *offsets, _ = offsets_in_file(self.sizes)
            self._frames = [
                self.file.read_at(offset, size)
                for offset, size in zip(offsets, self.sizes, strict=True)
            ]
        return self._frames

    def chunks(self) -> Iterator[bytes]:
        """Yield the file, or what it would be, in pieces that gRPC accepts."""
        *offsets, end = offsets_in_file(self.sizes)
        if self.file is not None:
            for offset in range(0, end, CHUNK_BYTES):
                yield self.file.read_at(offset, CHUNK_BYTES)
            return
        at = 0
        for frame, offset in zip(self._frames, offsets, strict=True):
            gap = bytes(offset - at)
            for piece in cut([frame], CHUNK_BYTES):
                yield gap + bytes(piece)
                gap, at = b"", offset + memoryview(frame).nbytes

    def close(self) -> None:
        """Let go of the file; processes that have mapped it keep it."""
        if self.file is not None:
            self.file.close()


class Placement:
    """A payload on its way into the memory of one host, as fast as its agent takes it."""

    def __init__(self, host: str, placement_id: str, payload: Payload, sender: Sender) -> None:
        self.taken_bytes = 0
        """So much has arrived."""
        self._host, self._id, self._sender = host, placement_id, sender
        self._chunks = payload.chunks()
        self._sent_bytes, self._end = 0, offsets_in_file(payload.sizes)[-1]

    def advance(self) -> bool:
        """Send what the window takes; return whether the host has an agent."""
        while self._sent_bytes < min(self._end, self.taken_bytes + WINDOW_BYTES):
            data = next(self._chunks)
            self._sent_bytes += len(data)
            is_last = self._sent_bytes == self._end
            chunk = pb.PlaceChunk(request_id=self._id, data=data, is_last=is_last)
            if not self._sender.to_agent(self._host, pb.AgentCommand(place_chunk=chunk)):
                return False
        return True

    def end(self) -> None:
        """Send no more, and have the agent forget it; engines that have mapped it keep it."""
        removal = pb.RemovePlaced(request_id=self._id)
        self._sender.to_agent(self._host, pb.AgentCommand(remove_placed=removal))
