"""The other ends of simulated hosts: a dealer and a stream that keep what is said."""

from types import SimpleNamespace

import pytest

from jupyter_dist.agent.connection.dial import Found
from jupyter_dist.protocol import host_agent_pb2 as pb


class FakeDealer:
    """A line to a coordinator, whose messages a test puts in."""

    fileno = 77

    def __init__(self, *_arguments, **_options):
        self.arrived = []
        self.said = []
        self.is_closed = False

    def receive(self):
        while self.arrived:
            yield self.arrived.pop(0), []

    def send(self, message):
        self.said.append(message)

    def silence_s(self):
        return 0.0

    def close(self, _linger_ms):
        self.is_closed = True


class FakeStream:
    """An agent's stream: what it tells, and what it said last."""

    def __init__(self):
        self.told = []
        self.last = []

    def tell(self, event):
        self.told.append(event)

    def say_last(self, event):
        self.last.append(event)

    def of(self, kind):
        """Return the events of one kind."""
        return [getattr(each, kind) for each in self.told if each.WhichOneof("event") == kind]


class FakeLoop:
    """A loop in which time goes by only when a test says so."""

    def __init__(self):
        self.readers = set()
        self.later = []

    def add_reader(self, fileno, _call):
        self.readers.add(fileno)

    def remove_reader(self, fileno):
        self.readers.discard(fileno)

    def create_task(self, coroutine):
        """Let it run to its end: it has nothing to wait for here."""
        with pytest.raises(StopIteration):
            coroutine.send(None)

    def call_later(self, delay_s, call, *arguments):
        timer = SimpleNamespace(delay_s=delay_s, is_over=False)
        timer.cancel = lambda: setattr(timer, "is_over", True)
        timer.call = lambda: call(*arguments)
        self.later.append(timer)
        return timer

    def pass_time(self):
        """Let everything that was to come be there."""
        due, self.later = self.later, []
        for timer in due:
            if not timer.is_over:
                timer.call()


FOUND = Found("127.0.0.1", "127.0.0.1")
START = pb.StartEngines(
    places=[pb.RankPlace(rank=4, engine="4-a"), pb.RankPlace(rank=5, engine="5-a")], generation=1
)
