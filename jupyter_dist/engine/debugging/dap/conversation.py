"""What a client says to the debugger of a rank and back: what has to be different on a rank.

A debugger never ends a rank, output of a rank goes to its cell only, and the source of a cell is
read from the rank, because the client may be on a machine that does not have its file.
"""

import linecache
from itertools import count
from typing import Any

import msgspec

from jupyter_dist.engine.debugging.dap.cell_breakpoints import CellBreakpoints
from jupyter_dist.model.ranks.source_files import name_cell_file

_FIRST_REFERENCE = 1 << 30
"""Of the sources of cells; those that debugpy gives count from 1."""
_READ = (b'"stackTrace"', b'"setBreakpoints"')
"""Answers to these are read."""
_ENDS_RANK = "a debugger cannot end a rank: disconnect, and it goes on"
_GONE = "{path} cannot be read where this rank runs, or is not kept any more"


class Conversation:
    """Rewrites messages of one session, each JSON of one message of the protocol."""

    def __init__(self, cells: CellBreakpoints) -> None:
        self._cells = cells
        self._references: dict[str, int] = {}
        """Of the files of cells that were told of."""
        self._numbers = count(_FIRST_REFERENCE)
        self._disconnect: int | None = None
        """Number of the request by which the client leaves."""
        self.is_over = False
        """The answer to that was told."""

    # --- from the client ---

    def read(self, content: bytes) -> tuple[bytes, bytes]:
        """Return what the debugger is to hear, and what the client hears at once; b"": nothing."""
        message: dict[str, Any] = msgspec.json.decode(content)
        arguments = message.get("arguments") or {}
        match message.get("command"):
            case "terminate":
                return b"", _answer(message, problem=_ENDS_RANK)
            case "disconnect":
                self._disconnect = message.get("seq")
                message["arguments"] = {"restart": False, "terminateDebuggee": False}
            case "attach":
                never = {"redirectOutput": False, "showReturnValue": True, "subProcess": False}
                message["arguments"] = {**arguments, **never}
            case "source" if (path := self._find_path(arguments)) is not None:
                text = "".join(linecache.getlines(path))
                if not text:
                    return b"", _answer(message, problem=_GONE.format(path=path))
                return b"", _answer(message, {"content": text, "mimeType": "text/x-python"})
            case "setBreakpoints" if (set_ones := self._cells.plan(arguments)) is not None:
                return b"", _answer(message, {"breakpoints": set_ones})
            case "setBreakpoints" | "breakpointLocations" | "gotoTargets":
                source = dict(arguments.get("source") or {})
                if self._find_path({"source": source}) is not None:
                    del source["sourceReference"]
                    message["arguments"] = {**arguments, "source": source}
            case _:
                return content, b""
        return msgspec.json.encode(message), b""

    def _find_path(self, arguments: dict[str, Any]) -> str | None:
        """Return the file on this host that a source stands for; None: the debugger knows."""
        source = arguments.get("source") or {}
        wanted = source.get("sourceReference") or arguments.get("sourceReference") or 0
        if not wanted and "sourceReference" in arguments:
            return source.get("path") or None
        return next((path for path, each in self._references.items() if each == wanted), None)

    # --- from the debugger ---

    def write(self, content: bytes) -> bytes:
        """Return what the client is to hear; b"": nothing."""
        if self._disconnect is None and not any(each in content for each in _READ):
            return content
        message: dict[str, Any] = msgspec.json.decode(content)
        if message.get("type") != "response":
            return content
        if self._cells.on_answer(message):
            return b""
        self.is_over |= message.get("request_seq") == self._disconnect
        for each in (message.get("body") or {}).get("stackFrames") or ():
            source = each.get("source") or {}
            if name := name_cell_file(source.get("path") or ""):
                path = source["path"]
                if path not in self._references:
                    self._references[path] = next(self._numbers)
                source |= {"name": name, "sourceReference": self._references[path]}
        return msgspec.json.encode(message)


def _answer(request: dict[str, Any], body: Any = None, *, problem: str = "") -> bytes:
    answer = {
        "seq": 0,
        "type": "response",
        "request_seq": request.get("seq", 0),
        "command": request.get("command", ""),
        "success": not problem,
    }
    if problem:
        answer |= {"message": problem, "body": {"error": {"id": 1, "format": problem}}}
    elif body is not None:
        answer["body"] = body
    return msgspec.json.encode(answer)
