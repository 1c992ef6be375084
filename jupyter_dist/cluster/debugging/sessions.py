"""What a client of the address becomes: the session of one rank, or the one that opens those."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from jupyter_dist.cluster.debugging.client_stream import DapClient
from jupyter_dist.cluster.debugging.debugger_line import OpenLine

CAPABILITIES: Mapping[str, Any] = {
    **dict.fromkeys(
        (
            "supportsCompletionsRequest",
            "supportsConditionalBreakpoints",
            "supportsConfigurationDoneRequest",
            "supportsDelayedStackTraceLoading",
            "supportsEvaluateForHovers",
            "supportsExceptionInfoRequest",
            "supportsExceptionOptions",
            "supportsFunctionBreakpoints",
            "supportsGotoTargetsRequest",
            "supportsHitConditionalBreakpoints",
            "supportsLogPoints",
            "supportsModulesRequest",
            "supportsSetExpression",
            "supportsSetVariable",
            "supportsStepInTargetsRequest",
            "supportsValueFormattingOptions",
        ),
        True,
    ),
    "supportTerminateDebuggee": False,
    "supportsTerminateRequest": False,
    "exceptionBreakpointFilters": [
        {"filter": "raised", "label": "Raised Exceptions", "default": False},
        {"filter": "uncaught", "label": "Uncaught Exceptions", "default": False},
        {"filter": "userUnhandled", "label": "User Uncaught Exceptions", "default": False},
    ],
}
"""What debugpy can do, but for ending the process."""
_ENDED = "the debugger has ended"
_ASK_A_RANK = "this session only opens those of the ranks: ask one of them"

SILENCE_S = 3.0
"""A rank that has not answered within this time is reported as silent."""
LEAVING_S = 5.0
"""So long a rank has to take its debugger out; one that is silent does so when it is not."""
JUST_NOW_S = 1.0
"""A client that attaches again may come before it is seen that it has left."""

Requests = Iterator[tuple[dict[str, Any], bytes]]
"""What a client asks, and the same as JSON."""


class Greeting(NamedTuple):
    """How a client has begun: what it asks, each with its JSON."""

    initialize: dict[str, Any]
    initialize_content: bytes
    attach: dict[str, Any]
    attach_content: bytes


def read_requests(contents: Iterable[bytes]) -> Requests:
    """Yield what a client asks, until it leaves or says what is no JSON object."""
    for content in contents:
        try:
            request = msgspec.json.decode(content)
        except (msgspec.DecodeError, RecursionError):
            return
        if not isinstance(request, dict):
            return
        yield request, content


def greet(client: DapClient, requests: Requests) -> Greeting | None:
    """Answer `initialize`, and return it with what comes next; None: the client has left."""
    initialize: dict[str, Any] = {}
    greeting = b""
    for request, content in requests:
        if request.get("command") != "initialize":
            return Greeting(initialize, greeting, request, content)
        initialize, greeting = request, content
        client.answer(request, CAPABILITIES)
    return None


class Session(Protocol):
    """One client that has shown the token."""

    def serve(self, requests: Requests) -> None:
        """Do what it asks until it leaves."""

    def end(self, reason: str) -> None:
        """Tell it that the session is over, and why; from any thread."""


class ClusterSession:
    """Opens a session for each rank, and has no threads of its own."""

    def __init__(
        self,
        client: DapClient,
        greeting: Greeting,
        ranks: tuple[int, ...],
        address: tuple[str, int],
    ) -> None:
        self._client, self._ranks, self._address = client, ranks, address
        self._attach = greeting.attach
        self._asks = bool(
            greeting.initialize.get("arguments", {}).get("supportsStartDebuggingRequest")
        )

    def serve(self, requests: Requests) -> None:
        """Open them when the client has told what it has to tell first."""
        self._client.answer(self._attach)
        self._client.tell("initialized", {})
        for request, _content in requests:
            command, arguments = request.get("command"), request.get("arguments") or {}
            if request.get("type") != "request":
                continue  # an answer to ours
            if command == "configurationDone":
                self._client.answer(request)
                for rank in self._ranks:
                    self._open(rank)
            elif command == "disconnect":
                self._client.answer(request)
                return
            elif command == "threads":
                self._client.answer(request, {"threads": []})
            elif command == "setBreakpoints":
                unverified = [{"verified": False}] * len(arguments.get("breakpoints") or ())
                self._client.answer(request, {"breakpoints": unverified})
            elif str(command).startswith("set"):
                self._client.answer(request, {"breakpoints": []})
            else:
                self._client.answer(request, problem=_ASK_A_RANK)

    def _open(self, rank: int) -> None:
        host, port = self._address
        configuration = {
            **{key: each for key, each in self._attach["arguments"].items() if key[:2] != "__"},
            "name": f"rank {rank}",
            "type": self._attach["arguments"].get("type", "debugpy"),
            "request": "attach",
            "connect": {"host": host, "port": port},
            "rank": rank,
        }
        if self._asks:
            start = {"request": "attach", "configuration": configuration}
            self._client.ask("startDebugging", start)
        else:
            self._client.tell("debugpyAttach", configuration)

    def end(self, reason: str) -> None:
        """Tell it that the cluster is gone."""
        del reason  # the sessions of ranks tell it
        self._client.tell("terminated", {})
        self._client.close()


class RankSession:
    """Carries messages between a client and the debugger of one rank."""

    def __init__(
        self, client: DapClient, greeting: Greeting, rank: int, open_line: OpenLine
    ) -> None:
        self._client, self._greeting, self.rank = client, greeting, rank
        self._is_greeted = self._is_attached = False
        self._left, self._over = threading.Event(), threading.Event()
        self._line = open_line(rank, self)

    def serve(self, requests: Requests) -> None:
        """Pass on what it asks; at its end the debugger is taken out, and the rank goes on."""
        self._line.send(self._greeting.initialize_content)
        self._line.send(self._greeting.attach_content)
        silence = threading.Timer(SILENCE_S, self._tell_silence)
        silence.start()
        for request, content in requests:
            if request.get("command") == "disconnect":
                self._left.set()
            self._line.send(content)
        self._left.set()
        silence.cancel()
        self._line.close()
        self._over.wait(LEAVING_S)

    def await_leave(self) -> None:
        """Wait until it is over, if its client has left."""
        if self._left.wait(JUST_NOW_S):
            self._over.wait(LEAVING_S)

    def _tell_silence(self) -> None:
        if not self._is_greeted:
            said = f"rank {self.rank} has not answered yet: is it in C code that keeps the GIL?\n"
            self._client.tell("output", {"category": "important", "output": said})

    def on_message(self, content: bytes) -> None:
        """Pass on what the debugger says, but for its own greeting: the client has one."""
        if not self._is_attached:
            said = msgspec.json.decode(content)
            command = said.get("command") if said.get("type") == "response" else ""
            self._is_attached = command == "attach"
            if command == "initialize" and not self._is_greeted:
                self._is_greeted = True
                return
        self._client.write(content)

    def on_ended(self, reason: str) -> None:
        """Tell the client that its rank is out of reach."""
        self.end(reason)
        self._over.set()

    def end(self, reason: str) -> None:
        """Tell it that the session is over, and why, unless it has left."""
        if not self._is_attached:
            self._client.answer(self._greeting.attach, problem=reason or _ENDED)
        elif reason:  # else the debugger has said so itself
            said = {"category": "important", "output": f"{reason}\n"}
            self._client.tell("output", said)
            self._client.tell("terminated", {})
        self._client.close()
