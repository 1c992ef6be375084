"""How long the end of a cluster waits for its agents."""

from types import SimpleNamespace

import pytest

from jupyter_dist.control.poller import Waker
from jupyter_dist.coordinator import shutdown
from jupyter_dist.coordinator.shutdown import dismiss_agents
from jupyter_dist.protocol import host_agent_pb2 as pb


class Agents:
    """Those of three hosts; each answers as its name says."""

    def __init__(self):
        self.waker = Waker()
        self._arrived = []
        self.looks = 0

    def send(self, host, command):
        assert command.WhichOneof("command") == "stop"
        if host == "willing":
            self._arrived.append((host, pb.AgentEvent(all_stopped=pb.AllStopped())))
        return host != "gone"

    def judge(self, _now_s, hosts_heard_s):
        assert hosts_heard_s() == {}
        self.looks += 1
        if self.looks == 2:
            self._arrived.append(("silent", None))

    def receive(self):
        arrived, self._arrived = self._arrived, []
        return arrived


@pytest.fixture
def agents(monkeypatch):
    monkeypatch.setattr(shutdown, "_SLICE_S", 0.0)
    agents = Agents()
    yield agents
    agents.waker.close()


def dismiss(agents, *names):
    hosts = {name: SimpleNamespace(joined=True, is_lost=name == "gone") for name in names}
    return dismiss_agents(SimpleNamespace(hosts=hosts), agents, SimpleNamespace(stopped=set()))


def test_who_has_ended_its_ranks_is_not_waited_for(agents):
    assert dismiss(agents, "willing", "gone") == {"gone"}
    assert agents.looks <= 1


def test_a_host_that_is_given_up_meanwhile_is_not_waited_for(agents):
    assert dismiss(agents, "willing", "silent") == {"silent"}
    assert agents.looks == 2


def test_one_that_never_answers_is_waited_for_so_long_and_no_longer(agents, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(shutdown, "monotonic", lambda: next(clock))
    assert dismiss(agents, "willing", "stuck") == {"stuck"}
    assert next(clock) > shutdown.AGENTS_WORD_S
