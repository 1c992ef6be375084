"""A call that cannot be interrupted, on a thread of its own: who waits for it can be."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

_SLICE_S = 0.2
_Result = TypeVar("_Result")


class BlockingCall(Generic[_Result]):
    """Begins at once; where it is given up, its thread ends with the call or with the process."""

    def __init__(self, call: Callable[[], _Result], name: str) -> None:
        self._call = call
        self._outcome: Future[_Result] = Future()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._outcome.set_result(self._call())
        except BaseException as error:  # noqa: BLE001  (raised by who waits)
            self._outcome.set_exception(error)

    def has_ended(self, within_s: float) -> bool:
        """Return whether it ends within this time."""
        return bool(wait([self._outcome], within_s).done)

    @property
    def has_failed(self) -> bool:
        """Whether it has ended with an error."""
        return self._outcome.done() and self._outcome.exception() is not None

    def wait(self, look_around: Callable[[], None]) -> _Result:
        """Return its result; raise its error, or what `look_around` raises, five times a second."""
        while not self.has_ended(_SLICE_S):
            look_around()
        return self._outcome.result()
