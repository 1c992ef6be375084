"""Where debuggers may attach, and what a client of the whole cluster is told."""

import pytest

from jupyter_dist.cluster.debugging.address import _bind
from jupyter_dist.cluster.debugging.sessions import ClusterSession, Greeting
from jupyter_dist.errors import UsageError


@pytest.mark.parametrize(
    "listen", ["127.0.0.1", "x:y", "127.0.0.1:70000", "0.0.0.0:0", "host:1", ""]
)
def test_only_addresses_of_this_machine_are_taken(listen):
    with pytest.raises(UsageError):
        _bind(listen)


def test_a_port_that_is_taken_is_refused():
    with _bind(":0") as listener, pytest.raises(UsageError):
        _bind(f"localhost:{listener.getsockname()[1]}")


class Client:
    """Keeps what it is told."""

    def __init__(self):
        self.answers, self.opened = {}, []

    def answer(self, request, body=None, *, problem=""):
        self.answers[request["command"]] = problem or body

    def tell(self, event, body):
        if event != "initialized":
            self.opened.append((event, body))

    def ask(self, command, arguments):
        self.opened.append((command, arguments["configuration"]))

    def close(self):
        self.opened.append("closed")


def serve(requests, **capabilities):
    attach = {"command": "attach", "arguments": {"token": "t", "__id": 1, "justMyCode": False}}
    client = Client()
    initialize = {"command": "initialize", "arguments": capabilities}
    greeting = Greeting(initialize, b"", attach, b"")
    session = ClusterSession(client, greeting, (1, 3), ("127.0.0.1", 5))
    asked = ({"type": "request", "command": command} for command in requests)
    session.serve((request, b"") for request in asked)
    return client


@pytest.mark.parametrize(
    ("capabilities", "how"),
    [({"supportsStartDebuggingRequest": True}, "startDebugging"), ({}, "debugpyAttach")],
)
def test_each_rank_is_opened_as_a_session_when_all_is_said(capabilities, how):
    client = serve(["threads", "setBreakpoints", "setExceptionBreakpoints"], **capabilities)
    assert client.opened == []
    client = serve(["configurationDone", "stackTrace", "disconnect", "threads"], **capabilities)
    assert [(each, body["rank"]) for each, body in client.opened] == [(how, 1), (how, 3)]
    assert client.opened[0][1] == {
        "name": "rank 1",
        "type": "debugpy",
        "request": "attach",
        "connect": {"host": "127.0.0.1", "port": 5},
        "token": "t",
        "justMyCode": False,
        "rank": 1,
    }
    assert "rank" in client.answers["stackTrace"]
    assert "threads" not in client.answers
