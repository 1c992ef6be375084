import struct
from collections import deque
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def find_ready(sockets, _within_ms):
    return [socket for socket, _events in sockets if socket.has_arrived]


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr(heartbeat, "monotonic", lambda: clock.now_s)
    return clock


@pytest.fixture
def monitor(clock, monkeypatch):
    del clock
    monkeypatch.setattr(frames, "zmq_poll", find_ready)
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
    monitor.ask([b"0", b"1"])
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


def answer(monitor, relay, asked_s, names=None):
    """Let an answer to what was asked then come: that of all, or of these."""
    frames = [relay, struct.pack("<d", asked_s)]
    monitor._socket.come.append(frames if names is None else [*frames, names])
    monitor.receive()


def test_a_stamp_alone_is_the_answer_of_all_who_were_asked_with_it(monitor, clock):
    monitor.ask([b"2", b"3"])
    clock.now_s = 101.0
    monitor.ask([b"2", b"3"])
    answer(monitor, b"relay-a", 101.0)
    assert [monitor.answered_s(name) for name in (b"2", b"3")] == [101.0, 101.0]
    assert monitor.oldest_s() == 101.0


def test_the_answer_of_all_is_none_of_an_engine_that_was_not_asked_then(monitor, clock):
    monitor.ask([b"2"])
    clock.now_s = 101.0
    monitor.ask([b"2", b"3"])
    clock.now_s = 102.0
    answer(monitor, b"relay-a", 100.0)
    assert monitor.answered_s(b"3") == 0.0
    assert monitor.oldest_s() == 100.0, "the first question to the engine that was there before"


def test_a_relay_is_told_names_until_all_of_them_have_answered(monitor, clock):
    asked = monitor._socket.asked
    for is_told in (True, True, False, True):
        clock.now_s += 1.0
        asked.clear()
        monitor.ask([b"2", b"3"])
        assert (asked == [b"2 3"]) == is_told
        if clock.now_s == 102.0:
            answer(monitor, b"relay-a", 102.0)


ENGINES = [b"0", b"1", b"2", b"3", b"4"]


class PlainMonitor:
    """The same by a loop over engines, with nothing kept together."""

    def __init__(self):
        self.last, self.answered, self.asked = {}, {}, {}

    def ask(self, names, relays, now_s):
        self.last = {name: self.last.get(name, now_s) for name in names}
        self.answered = {name: self.answered.get(name, 0.0) for name in names}
        for name in names:
            self.asked.setdefault((relays.get(name, name), now_s), []).append(name)

    def take(self, names, asked_s):
        for name in names:
            if name in self.last and self.answered[name] < asked_s:
                self.answered[name] = asked_s
                self.last[name] = max(self.last[name], asked_s)

    def excuse(self, now_s):
        self.last = dict.fromkeys(self.last, now_s)


def answer_one(data, kind, monitor, plain):
    """Let one question be answered: by all, or by some where a relay says so."""
    key = data.draw(st.sampled_from(sorted(plain.asked)), "question")
    identity, asked_s = key
    names = plain.asked[key]
    if kind == "some" and identity.startswith(b"relay"):
        names = data.draw(st.lists(st.sampled_from(names), unique=True), "names")
        answer(monitor, identity, asked_s, b" ".join(names))
    else:
        answer(monitor, identity, asked_s)
    plain.take(names, asked_s)


@given(st.data())
def test_engines_are_known_as_well_by_their_relays_as_one_by_one(data):
    relays = {b"2": b"relay-a", b"3": b"relay-a", b"4": b"relay-b"}
    now_s, plain = 100.0, PlainMonitor()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heartbeat, "monotonic", lambda: now_s)
        patch.setattr(frames, "zmq_poll", find_ready)
        patch.setattr(frames, "send_frame", Socket.send)
        context = SimpleNamespace(socket=lambda _kind: Socket())
        monitor = HeartbeatMonitor(context, "beats", KeyPair("public", "secret"), relays)
        for _ in range(data.draw(st.integers(1, 12), "steps")):
            now_s += 1.0
            match data.draw(st.sampled_from(["ask", "all", "some", "leave", "excuse"]), "step"):
                case "ask":
                    names = data.draw(st.lists(st.sampled_from(ENGINES), unique=True), "names")
                    monitor.ask(sorted(names))
                    plain.ask(sorted(names), relays, now_s)
                case "leave":
                    relays.pop(data.draw(st.sampled_from(ENGINES), "who"), None)
                case "excuse":
                    monitor.excuse_silence()
                    plain.excuse(now_s)
                case kind if plain.asked:
                    answer_one(data, kind, monitor, plain)
            # What is known is never newer; it may be as of the next question, where relays change.
            for name in plain.last:
                assert monitor.answered_s(name) <= plain.answered[name]
                assert monitor.last_beat_s(name) <= plain.last[name]
            if plain.last:
                assert monitor.oldest_s() == min(map(monitor.last_beat_s, plain.last))
        for _ in range(2):
            now_s += 1.0
            monitor.ask(ENGINES)
            for identity in {relays.get(name, name) for name in ENGINES}:
                answer(monitor, identity, now_s)
            assert {monitor.answered_s(name) for name in ENGINES} == {now_s}
