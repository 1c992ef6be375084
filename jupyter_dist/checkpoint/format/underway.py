"""A call to the system that may take minutes, in a thread of its own."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_SLICE_S = 0.2
_Result = TypeVar("_Result")


class Underway(Generic[_Result]):
    """A call in a thread of its own; a caller that waits for it can be interrupted, or leave."""

    def __init__(self, call: Callable[[], _Result], name: str) -> None:
        self._call = call
        self._done = threading.Event()
        self._results: list[_Result] = []
        self._error: OSError | None = None
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def wait(self) -> _Result:
        """Return what the call has returned; raise the OSError that it has raised."""
        while not self._done.wait(_SLICE_S):
            pass
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except OSError as error:
            self._error = error
        finally:
            self._done.set()
