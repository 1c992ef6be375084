"""One session, with a program of this machine in the place of ssh."""

import signal
import sys

import msgspec
import pytest

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.files.connection_file import StartReport
from jupyter_dist.launch.launcher import AgentHello
from jupyter_dist.launch.proxy.conversation import CLUSTER_ENDED, END, GREETING, RemoteOrder
from jupyter_dist.launch.proxy.remote_session import LoginRefused, RemoteSession
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.version import WIRE

FAR_END = """
import sys
print("Welcome to login!", flush=True)
print({greeting!r}, flush=True)
order = sys.stdin.readline()
print("a module says this", flush=True)
print({stage!r}, flush=True)
print({report!r}, flush=True)
words = sys.stdin.readline()
if words:
    print("kept", flush=True)
words += sys.stdin.read()
sys.exit({ended} if '"demo"' in order and words == "keep\\n" else 1)
"""


@pytest.fixture
def begin(tmp_path):
    """Begin sessions whose far end is a program; they end with the test."""
    sessions = []

    def begin(wire=WIRE, program=FAR_END, name="demo"):
        hello = msgspec.json.encode(AgentHello(wire, "0.0", "its Python")).decode()
        program = program.format(
            greeting=f"{GREETING}{hello}",
            stage=msgspec.json.encode(StartReport(stage="loading")).decode(),
            report=msgspec.json.encode(StartReport(problem="no room")).decode(),
            ended=CLUSTER_ENDED,
        )
        host = HostSpec("login", launcher="ssh", ssh=(sys.executable, "-c", program))
        sessions.append(RemoteSession(host, RemoteOrder(name), tmp_path / "ssh.log"))
        return sessions[-1]

    yield begin
    for session in sessions:
        session.close()


def test_its_far_end_gets_the_order_and_reports_whatever_else_is_printed(begin):
    session, stages = begin(), []
    assert session.read_report(stages.append) == StartReport(problem="no room")
    assert [each.stage for each in stages] == ["loading"]
    session.keep()
    session.close()
    assert session.has_ended


def test_a_far_end_that_ends_otherwise_has_not_told_that_the_cluster_did(begin):
    session = begin()
    session.read_report()
    session.close()
    assert not session.has_ended


def test_a_connection_that_breaks_before_it_has_heard_to_keep_the_cluster_fails_the_start(begin):
    session = begin(program=FAR_END.replace("words = sys.stdin.readline()", "sys.exit(255)"))
    session.read_report()
    with pytest.raises(StartFailed, match="login"):
        session.keep()


def test_a_signal_may_come_while_the_order_is_written(begin):
    program = "import time; print({greeting!r}, flush=True); time.sleep(60)"
    session = begin(program=program, name="x" * (1 << 20))  # more than the pipe takes
    before = signal.signal(signal.SIGALRM, lambda *_: session.say(END))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(StartFailed):
            session.read_report()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_another_version_is_refused_with_both(begin):
    with pytest.raises(StartFailed, match=rf"login: its .* speaks jupyter-dist/0, .* {WIRE}"):
        begin(wire="jupyter-dist/0").read_report()


@pytest.mark.parametrize(
    ("said", "status", "is_refused"),
    [
        ("me@login: Permission denied (publickey).", 255, True),
        ("Host key for login has changed\nHost key verification failed.", 255, True),
        ("ssh: connect to host login port 22: Connection refused", 255, False),
        ("cat: x: Permission denied (2)", 1, False),
    ],
)
def test_a_login_that_is_refused_is_told_from_a_way_that_is_not_there(
    begin, said, status, is_refused
):
    program = f"import sys; print({said!r}, file=sys.stderr); sys.exit({status})"
    with pytest.raises(StartFailed) as caught:
        begin(program=program).read_report()
    assert isinstance(caught.value, LoginRefused) == is_refused


def test_what_ssh_says_is_the_reason(begin):
    program = "import sys; sys.exit('ssh: Could not resolve hostname login: Name not known')"
    with pytest.raises(StartFailed, match="login"):
        begin(program=program).read_report()
