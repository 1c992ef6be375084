"""What this rank has launched and is not done yet; two threads look after it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_MOST = 256


@dataclass(slots=True, eq=False)
class Launch:
    """A program that was launched, until its outputs are ready."""

    call: str
    """As `jit(step)(float32[8,4]) #5`."""
    token: int
    site: str
    has_begun: bool = False
    """It is past what we do before, and may wait for other ranks."""
    output: Any = None
    """The smallest of its outputs, which become ready together; None while it is launched."""

    def __str__(self) -> str:
        return f"{self.call} of JAX at {self.site}" if self.site else f"{self.call} of JAX"


class InFlight:
    """Launches in their order; `end_call` ends the record of one, by token and whether it is ok."""

    def __init__(self, end_call: Callable[[int, bool], None]) -> None:
        self._end_call = end_call
        self._launches: dict[int, Launch] = {}
        """By token. Whoever takes one out ends its record."""
        self.failed: tuple[Launch, Exception] | None = None
        """The first output that has become an error, and of which launch; nobody may have seen."""

    def __bool__(self) -> bool:
        return bool(self._launches)

    @property
    def waiting(self) -> frozenset[int]:
        """Tokens of what is under way and may wait for other ranks."""
        launches = tuple(self._launches.items())
        return frozenset(token for token, launch in launches if launch.has_begun)

    @property
    def has_outputs(self) -> bool:
        """Outputs are still to become ready, as far as `end_finished` has seen."""
        return any(launch.output is not None for launch in tuple(self._launches.values()))

    def add(self, launch: Launch) -> None:
        """Take one in that begins."""
        self._launches[launch.token] = launch

    def follow(self, launch: Launch, outputs: Sequence[Any]) -> None:
        """Keep an output of one that has been launched, until it is ready."""
        followed = [each for each in outputs if hasattr(each, "is_ready")]
        launch.output = min(followed, key=lambda each: getattr(each, "nbytes", 0), default=None)
        if launch.output is None:
            self.end(launch)
            return
        self._end_if_finished(launch)
        while len(self._launches) > _MOST:
            # Later ones are ready after it.
            self.end(next(iter(self._launches.values())))

    def end(self, launch: Launch, *, is_ok: bool = True) -> None:
        """End its record, once."""
        if self._launches.pop(launch.token, None) is not None:
            launch.output = None
            self._end_call(launch.token, is_ok)

    def end_all(self) -> None:
        """Follow nothing any more."""
        for launch in tuple(self._launches.values()):
            self.end(launch, is_ok=False)

    def end_finished(self) -> None:
        """End those whose outputs are ready; from any thread."""
        for launch in tuple(self._launches.values()):
            self._end_if_finished(launch)

    def _end_if_finished(self, launch: Launch) -> None:
        output = launch.output
        if output is None:
            return
        try:
            if not output.is_ready():
                return
            # It is ready, and stays so: this cannot wait, and raises what it has become.
            output.block_until_ready()
        except (RuntimeError, ValueError) as error:
            # One that was donated is gone, and no error: whoever got it is followed.
            if not output.is_deleted():
                self.failed = self.failed or (launch, error)
                self.end(launch, is_ok=False)
                return
        self.end(launch)
