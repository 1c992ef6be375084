"""The relay in a process of its own: it goes on while this one holds its interpreter, and ends."""

import ctypes
import os
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from jupyter_dist.errors import FrameworkError, UsageError
from jupyter_dist.frameworks.jax.service import relay_process
from jupyter_dist.frameworks.jax.service.relay_process import RelayProcess, prepare
from tests.patience import Stopwatch

from .leftovers import command_of, is_alive, wait_until

ECHO = """\
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        connection = server.accept()[0]
        while data := connection.recv(100):
            connection.sendall(data)
"""
CLIENT = """\
import socket, sys, time
with socket.socket(fileno=int(sys.argv[1])) as connection:
    connection.setblocking(True)
    start_s = time.monotonic()
    connection.sendall(b"hello")
    assert connection.recv(100) == b"hello"
    print(time.monotonic() - start_s)
"""
STRANGER = """\
import socket, sys
for greeting in (b"\\xff" + bytes(8) + b"\\x7f", b"GET / HTTP/1.1\\r\\n\\r\\n", b""):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as connection:
        try:
            connection.sendall(greeting)
            print(connection.recv(100))
        except ConnectionError:
            print(b"")
"""
HELD_US = 3_000_000


def relays():
    """Relays that are children of this process."""
    return [
        child
        for child in psutil.Process().children()
        if is_alive(child) and relay_process.__name__ in command_of(child)
    ]


@pytest.fixture
def service():
    """A process that says what it hears."""
    with subprocess.Popen([sys.executable, "-c", ECHO], stdout=subprocess.PIPE, text=True) as echo:
        echo.address = f"127.0.0.1:{echo.stdout.readline().strip()}"
        yield echo
        echo.kill()


@pytest.fixture
def relay(service):
    relay = RelayProcess(service.address)
    yield relay
    relay.close()
    assert not relays()


def connect(relay):
    host, _, port = relay.address.rpartition(":")
    return socket.create_connection((host, int(port)), 10)


def test_messages_pass_while_this_process_holds_its_interpreter(relay):
    with (
        connect(relay) as connection,
        subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(connection.fileno())],
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[connection.fileno()],
        ) as client,
    ):
        watch = Stopwatch()
        ctypes.PyDLL(None).usleep(HELD_US)
        took_s = float(client.stdout.readline())
    watch.assert_less(HELD_US / 1e6 / 2, "a round trip", took_s=took_s)


def test_it_knows_that_the_service_is_gone_and_keeps_the_client(relay, service):
    with connect(relay) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"
        assert not relay.why_gone
        service.kill()
        wait_until(lambda: relay.why_gone, 5, "the end of the service is known")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(100)
    assert relay.why_gone, "once and for all"


def test_another_process_is_turned_away_and_its_end_is_not_that_of_the_service(relay):
    port = relay.address.rpartition(":")[2]
    with connect(relay) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"
        said = subprocess.check_output([sys.executable, "-c", STRANGER, port], text=True)
        assert said.split() == ["b''"] * 3
        assert not relay.why_gone
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"


def test_its_own_end_is_not_said_to_be_that_of_the_service(relay):
    assert not relay.why_gone
    relay._process.kill()
    wait_until(lambda: relay.why_gone, 5, "its end is known")
    assert str(-signal.SIGKILL) in relay.why_gone


def test_one_that_was_prepared_is_taken(service):
    prepare()
    prepare()
    (spare,) = relay_process._SPARE
    relay = RelayProcess(service.address)
    assert relay._process is spare
    relay.close()
    assert spare.returncode is not None
    assert not relays()
    relay.close()


def test_what_hinders_one_from_being_prepared_is_told_when_it_is_needed(monkeypatch):
    monkeypatch.setattr(relay_process, "_COMMAND", ("/no/such/python",))
    prepare()
    with pytest.raises(FrameworkError, match="/no/such/python"):
        RelayProcess("127.0.0.1:1")


def test_an_interrupt_of_all_does_not_reach_it(relay):
    os.kill(relay._process.pid, signal.SIGINT)
    with connect(relay) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"


def test_it_ends_with_its_parent_though_a_child_has_its_pipes(service):
    code = (
        "import os, sys, time\n"
        "from jupyter_dist.frameworks.jax.service.relay_process import RelayProcess\n"
        "relay = RelayProcess(sys.argv[1])\n"
        "child = os.fork()\n"
        "if not child:\n    time.sleep(30)\n    os._exit(0)\n"
        "print(relay._process.pid, child, flush=True)\n"
        "sys.stdin.readline()\n"
        "os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", code, service.address]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        relay, child = (psutil.Process(pid) for pid in pids)
        assert is_alive(relay)
        parent.stdin.close()
    assert is_alive(child)
    wait_until(lambda: not is_alive(relay), 5, "the relay has ended")
    child.kill()
    wait_until(lambda: not is_alive(child), 5, "the child has ended")


def test_what_is_in_its_way_is_told_and_nothing_is_left():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(FrameworkError, match=f"127.0.0.1:{port} .*reached"):
        RelayProcess(f"127.0.0.1:{port}")
    with pytest.raises(UsageError):
        RelayProcess("127.0.0.1")
    assert not relays()
