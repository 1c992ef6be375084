"""Breakpoints in cells that a client knows by their text, as JupyterLab does.

Each run of a cell has a file of its own, so they are set in all files that have this text, and in
those to come before the cell begins.
"""

import linecache
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from jupyter_dist.model.ranks.source_files import ANY_NUMBER, have_same_text

PATIENCE_S = 2.0
"""So long a cell waits until its breakpoints are set."""
_FIRST_NUMBER = 1 << 30
"""Of requests that no client has sent; those of clients count from 1."""


class CellBreakpoints:
    """Remembers them for one session."""

    def __init__(self, ask: Callable[[bytes], None]) -> None:
        """`ask` takes the JSON of a request to the debugger; any thread may call it."""
        self._ask = ask
        self._numbers = count(_FIRST_NUMBER)
        self._planned: dict[str, dict[str, Any]] = {}
        """What was asked for, by the name of the file with ANY_NUMBER."""
        self._open: dict[int, threading.Event] = {}
        """Requests without an answer, by number."""

    def plan(self, arguments: dict[str, Any]) -> list[dict[str, Any]] | None:
        """Set the breakpoints of a cell now and in its next runs, and return them as they are told.

        None: the request means one file.
        """
        name = (arguments.get("source") or {}).get("path") or ""
        if not name.startswith(f"In_{ANY_NUMBER}_"):
            return None
        self._planned[name] = arguments
        for path in list(linecache.cache):
            if have_same_text(name, path):
                self._set(path, arguments)
        wanted = arguments.get("breakpoints") or ()
        return [{"verified": True, "line": each.get("line", 1)} for each in wanted]

    def on_file(self, path: str) -> None:
        """Set them in the file of a cell that is about to begin; on the thread that runs it."""
        for name, arguments in tuple(self._planned.items()):
            if arguments.get("breakpoints") and have_same_text(name, path):
                self._set(path, arguments).wait(PATIENCE_S)

    def on_answer(self, message: dict[str, Any]) -> bool:
        """Return whether a message of the debugger answers one of these requests."""
        is_set = self._open.pop(message.get("request_seq", 0), None)
        if is_set is not None:
            is_set.set()
        return is_set is not None

    def end(self) -> None:
        """Let a cell that waits begin: there will be no answer."""
        for is_set in tuple(self._open.values()):
            is_set.set()

    def _set(self, path: str, arguments: dict[str, Any]) -> threading.Event:
        number, is_set = next(self._numbers), threading.Event()
        self._open[number] = is_set
        request = {
            "seq": number,
            "type": "request",
            "command": "setBreakpoints",
            "arguments": {**arguments, "source": {"path": path}},
        }
        self._ask(msgspec.json.encode(request))
        return is_set
