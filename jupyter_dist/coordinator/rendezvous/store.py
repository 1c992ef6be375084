"""What ranks must know to form a communicator: each value is kept for one generation."""

from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import AwaitValue, PutValue, ValueFound
from jupyter_dist.protocol.places import write_place

MOST_BYTES = 64 << 20
"""Beyond that the oldest values go: they were of communicators that have long been formed."""


class Store:
    """Values by key, and who waits for those that nobody has put yet."""

    def __init__(self, rendezvous: Rendezvous, sender: Sender) -> None:
        self._rendezvous = rendezvous
        self._sender = sender
        self._generation = 0
        self._store: dict[str, Frame] = {}
        self._waiting: dict[str, set[int]] = {}
        self._told: dict[str, set[int]] = {}
        """Ranks that have got a value of the coordinator's own."""
        self._bytes = 0

    def on_message(self, message: PutValue | AwaitValue, frames: list[Frame]) -> None:
        """Take in what an engine says; another generation than the present one is over."""
        if not self._is_present(message.generation):
            return
        if isinstance(message, PutValue):
            if len(frames) == 1:
                self._keep(message.key, frames[0])
        elif (place := self._rendezvous.places.get(message.key)) is not None:
            found = ValueFound(self._generation, message.key)
            self._sender.to_engine(message.rank, found, [write_place(place)])
        elif message.key in self._store:
            self._send(message.rank, message.key)
        else:
            self._waiting.setdefault(message.key, set()).add(message.rank)

    def tell(self, generation: int, key: str, value: bytes) -> None:
        """Put a value of the coordinator's own; dropped when its generation is over."""
        if self._is_present(generation):
            self._told[key] = set()
            self._keep(key, value)

    def withdraw(self, generation: int, key: str, asking_rank: int | None = None) -> bool:
        """Forget a value of the coordinator's own, so that another can take its place.

        False when that may not be: the generation is over, or `asking_rank` has not got it yet,
        so that it must be told what others were.
        """
        if not self._is_present(generation):
            return False
        if key in self._told and asking_rank is not None and asking_rank not in self._told[key]:
            return False
        self._told.pop(key, None)
        self._bytes -= memoryview(self._store.pop(key, b"")).nbytes
        return True

    def _keep(self, key: str, value: Frame) -> None:
        """Keep a value, and send it to those that wait for it."""
        self._bytes -= memoryview(self._store.pop(key, b"")).nbytes
        self._store[key] = value
        self._bytes += memoryview(value).nbytes
        while self._bytes > MOST_BYTES and len(self._store) > 1:
            oldest = next(iter(self._store))
            self._bytes -= memoryview(self._store.pop(oldest)).nbytes
        for rank in sorted(self._waiting.pop(key, ())):
            self._send(rank, key)

    def _is_present(self, generation: int) -> bool:
        """Return whether this is about the present generation; forget those before it."""
        if self._generation != self._rendezvous.generation:
            self._generation = self._rendezvous.generation
            self._store.clear()
            self._bytes = 0
            self._waiting.clear()
            self._told.clear()
        return generation == self._generation

    def _send(self, rank: int, key: str) -> None:
        self._sender.to_engine(rank, ValueFound(self._generation, key), [self._store[key]])
        if key in self._told:
            self._told[key].add(rank)
