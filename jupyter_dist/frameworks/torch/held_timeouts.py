"""Time-outs of torch while ranks are in a debugger: calls that begin then have all the time."""

import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

_HELD = timedelta(days=7)
"""What a call has that begins while ranks are stopped; it keeps that when they go on."""


class HeldTimeouts:
    """Raises the time-outs of groups and of their store, and puts them back.

    torch gives each call its time-out when it begins: one under way cannot be given another.
    """

    def __init__(
        self, backends: Callable[[], Iterable[tuple[str, Any]]], store: Callable[[], Any]
    ) -> None:
        """`backends` gives what standing groups use, each under a name of its own."""
        self._backends, self._store = backends, store
        self._lock = threading.Lock()
        self._given: dict[str, timedelta] = {}
        """What the program has said, of those that are raised, by name."""
        self._given_to_store: timedelta | None = None

    def follow(self, is_held: bool) -> None:
        """Have time-outs raised, of new groups too, or put back; cheap where nothing changes."""
        if not is_held and not self._given and self._given_to_store is None:
            return
        with self._lock:
            if is_held:
                self._raise()
            else:
                self._put_back()

    def _raise(self) -> None:
        for name, backend in self._backends():
            given = backend.options._timeout  # noqa: SLF001  (torch: no other way)
            if given != _HELD:
                self._given[name] = given
                backend._set_default_timeout(_HELD)  # noqa: SLF001  (as above)
        store = self._store()
        given = getattr(store, "timeout", _HELD)
        if given != _HELD:
            self._given_to_store = given
            store.set_timeout(_HELD)

    def _put_back(self) -> None:
        """Put back what can be; an error of torch fails one cell, and not all that follow."""
        given, given_to_store = self._given, self._given_to_store
        self._given, self._given_to_store = {}, None
        for name, backend in self._backends():
            if name in given and backend.options._timeout == _HELD:  # noqa: SLF001  (as above)
                backend._set_default_timeout(given[name])  # noqa: SLF001  (as above)
        store = self._store()
        if given_to_store is not None and getattr(store, "timeout", None) == _HELD:
            store.set_timeout(given_to_store)
