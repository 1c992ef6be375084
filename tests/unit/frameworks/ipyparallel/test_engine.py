"""What one membership opens, sends and leaves behind."""

import contextlib
import errno
import os
import threading

import pytest
import zmq

from jupyter_dist.frameworks.ipyparallel.channels import Channels
from jupyter_dist.frameworks.ipyparallel.engine import ParallelEngine, Waker
from jupyter_dist.frameworks.ipyparallel.session import MessageSession

MESSAGES = 5000
KEYS = {"key": "secret", "signature_scheme": "hmac-sha256", "pack": "json", "unpack": "json"}


class FakeSeat:
    """Notes what it is told."""

    def __init__(self):
        self.told = []
        self.has_heard = threading.Event()

    def tell_joined(self, problem):
        self.told.append(problem)
        self.has_heard.set()


@pytest.fixture
def nowhere():
    """A place where a controller could be, and where nobody answers."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        yield {"interface": "tcp://127.0.0.1", "registration": port, **KEYS}


def count_files():
    return len(os.listdir("/proc/self/fd"))


def test_what_is_opened_after_the_end_gets_nothing_of_ours(nowhere, tmp_path):
    seat = FakeSeat()
    engine = ParallelEngine(nowhere, 0, seat)
    engine.start()
    engine.leave(5.0)
    assert not engine.is_alive()
    with contextlib.ExitStack() as stack:
        for number in range(16):
            stack.enter_context((tmp_path / str(number)).open("wb"))
        engine.leave(5.0)
        engine._turns._wake()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b""] * 16


def test_a_bell_wakes_once_and_is_silent_when_closed():
    waker = Waker()
    for _ in range(100_000):  # more than fits
        waker.ring()
    assert zmq.select([waker.descriptor], [], [], 0)[0]
    while zmq.select([waker.descriptor], [], [], 0)[0]:
        waker.clear()
    waker.close()
    waker.ring()


def test_an_engine_that_cannot_open_its_sockets_leaves_nothing_open(nowhere, monkeypatch):
    real = Channels._make

    def make(channels, kind):
        if len(channels._open) == 2:
            raise zmq.ZMQError(errno.EMFILE)
        return real(channels, kind)

    before = count_files()
    monkeypatch.setattr(Channels, "_make", make)
    with pytest.raises(zmq.ZMQError):
        ParallelEngine(nowhere, 0, FakeSeat())
    assert count_files() == before


def test_an_engine_that_gets_no_thread_leaves_nothing_open(nowhere, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    before = count_files()
    engine = ParallelEngine(nowhere, 0, FakeSeat())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError):
        engine.start()
    assert count_files() == before


def test_replies_are_not_dropped_where_they_leave_slower_than_they_come(nowhere):
    channels = Channels(nowhere, MessageSession(nowhere, 0))
    with (
        contextlib.closing(channels),
        zmq.Context() as context,
        context.socket(zmq.DEALER) as scheduler,
    ):
        scheduler.identity = b"scheduler"
        scheduler.rcvhwm = 1
        scheduler.rcvtimeo = 5000
        channels.shell.router_mandatory = 1
        channels.shell.connect(
            f"tcp://127.0.0.1:{scheduler.bind_to_random_port('tcp://127.0.0.1')}"
        )
        scheduler.send(b"a request")
        assert channels.shell.poll(5000)
        channels.shell.recv_multipart()
        channels.shell.router_mandatory = 0
        for number in range(MESSAGES):
            channels.shell.send_multipart([b"scheduler", b"%d" % number, bytes(10_000)])
        received = [int(scheduler.recv_multipart()[0]) for _ in range(MESSAGES)]
    assert received == list(range(MESSAGES))
