import struct
from collections import deque
from types import SimpleNamespace

import pytest

from jupyter_dist.control import frames, heartbeat
from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.protocol.credentials import KeyPair


class Socket:
    """Keeps the questions, and gives the beats that a test says have come."""

    def __init__(self):
        self.asked, self.come, self._frames = [], deque(), deque()

    def setsockopt(self, *_): ...

    @property
    def has_arrived(self):
        return bool(self.come or self._frames)

    def send(self, frame, flags, _copy):
        if not flags:
            self.asked.append(bytes(frame))

    def recv(self, _flags, _copy):
        if not self._frames:
            self._frames = deque(self.come.popleft())
        frame = self._frames.popleft()
        return SimpleNamespace(bytes=frame, buffer=frame, more=len(self._frames) > 0)


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr(heartbeat, "monotonic", lambda: clock.now_s)
    return clock


@pytest.fixture
def monitor(clock, monkeypatch):
    del clock
    monkeypatch.setattr(frames, "has_arrived", lambda socket: socket.has_arrived)
    monkeypatch.setattr(frames, "send_frame", Socket.send)
    context = SimpleNamespace(socket=lambda _kind: Socket())
    return HeartbeatMonitor(
        context, "beats", KeyPair("public", "secret"), {b"2": b"relay-a", b"3": b"relay-a"}
    )


def come(monitor, stamp, identity=b"0"):
    monitor._socket.come.append([identity, stamp])
    monitor.receive()


def test_a_beat_counts_as_of_the_time_at_which_it_was_asked_for(monitor, clock):
    assert monitor.last_beat_s(b"0") == 100.0, "silence begins with the first question"
    monitor.ask([b"0", b"1"])
    clock.now_s = 103.0
    assert monitor.last_beat_s(b"0") == 100.0
    monitor.ask([b"0"])
    clock.now_s = 109.0
    come(monitor, monitor._socket.asked[-1])
    assert (monitor.last_beat_s(b"0"), monitor.answered_s(b"0")) == (103.0, 103.0)
    assert (monitor.last_beat_s(b"1"), monitor.answered_s(b"1")) == (100.0, 0.0)


def test_an_answer_that_comes_after_a_later_one_changes_nothing(monitor, clock):
    for clock.now_s in (100.0, 101.0):
        monitor.ask([b"0", b"2", b"3"])
    first, *_, last = [frame for frame in monitor._socket.asked if len(frame) == 8]
    for stamp in (last, first):
        come(monitor, stamp)
        monitor._socket.come.append([b"relay-a", stamp, b"2 3"])
        monitor.receive()
    for name in (b"0", b"2", b"3"):
        assert (monitor.answered_s(name), monitor.last_beat_s(name)) == (101.0, 101.0)


def test_beats_from_before_a_time_in_which_nobody_listened_make_no_rank_older(monitor, clock):
    monitor.ask([b"0"])
    clock.now_s = 150.0
    monitor.excuse_silence()
    come(monitor, monitor._socket.asked[-1])
    assert monitor.last_beat_s(b"0") == 150.0


@pytest.mark.parametrize(
    "stamp", [b"", b"short", *(struct.pack("<d", odd) for odd in (1e9, -1.0, float("nan")))]
)
def test_what_cannot_be_a_beat_counts_as_none(monitor, clock, stamp):
    monitor.ask([b"0"])
    clock.now_s = 120.0
    come(monitor, stamp)
    assert monitor.last_beat_s(b"0") == 100.0
