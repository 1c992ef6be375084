import re

import msgspec
import pytest

from jupyter_dist.cluster.ipyparallel import from_ipyparallel
from jupyter_dist.cluster.ipyparallel.engine_locations import EngineLocation
from jupyter_dist.cluster.ipyparallel.from_ipyparallel import AgentBootstraps, draft_cluster
from jupyter_dist.errors import UsageError


def test_a_start_may_take_a_minute_unless_it_is_told_otherwise():
    assert draft_cluster(0, {}).timeout_s == 60.0
    assert draft_cluster(0, {"timeout_s": 7.0}).timeout_s == 7.0


def test_options_are_checked_before_anybody_is_asked():
    with pytest.raises(UsageError, match="timeout -1"):
        draft_cluster(0, {"timeout_s": -1})
    with pytest.raises(UsageError, match="communicator 'x' is unknown"):
        draft_cluster(0, {"comm": "x"})


@pytest.mark.parametrize(
    "option", ["python", "ssh", "tunnel", "install", "wheelhouse", "launcher", "nodes"]
)
def test_how_an_agent_gets_there_is_not_ours_to_choose(option):
    with pytest.raises(UsageError, match=f"^{option}: "):
        draft_cluster(0, {option: "x"})


@pytest.mark.parametrize("slots", [-1, 4097, 1.5, "2", None])
def test_slots_are_a_number(slots):
    with pytest.raises(UsageError, match=re.escape(f"slots {slots!r} ")):
        draft_cluster(slots, {})


@pytest.mark.parametrize("client", [None, "demo", object()])
def test_something_else_than_a_client_is_refused(client):
    with pytest.raises(UsageError, match=re.escape(f"{client!r} ")):
        AgentBootstraps(client, draft_cluster(0, {}), None).find(0)


def test_a_cluster_without_engines_says_how_to_wait_for_them():
    class Client:
        ids = ()

    with pytest.raises(UsageError, match="wait_for_engines"):
        AgentBootstraps(Client(), draft_cluster(0, {}), None).find(0)


class Result:
    """What an engine that lives has answered, or never will."""

    def __init__(self, answer):
        self.answer = answer

    def ready(self):
        return self.answer is not None

    def get(self, **_options):
        return self.answer


class Engine:
    """One engine of a client; its hostname is its number."""

    def __init__(self, client, number):
        self.client, self.number = client, number

    def apply_async(self, _function, call):
        if self.number in self.client.gone:
            raise IndexError(f"No such engine: {self.number}")
        self.client.asked.append((self.number, call))
        name = f"host{self.number}"
        site = EngineLocation(name, name, (3, 12), "/env/bin/python", None)
        return Result(msgspec.to_builtins(site) if call == "look" else None)


class Client:
    """A client of ipyparallel with three engines, of which some go away."""

    ids = (0, 1, 2)

    def __init__(self):
        self.gone = set()
        self.asked = []
        self.aborted = []

    def __getitem__(self, number):
        return Engine(self, number)

    def abort(self, _results, targets, block):
        if targets in self.gone:
            raise IndexError(f"No such engine: {targets}")
        self.aborted.append(targets)

    def wait(self, _results, timeout):
        pass


def test_agents_on_all_other_hosts_are_given_up_where_one_engine_is_gone(monkeypatch):
    monkeypatch.setattr(from_ipyparallel, "write_call", lambda function, _values: function)
    client = Client()
    bootstraps = AgentBootstraps(client, draft_cluster(0, {}), None)

    def start():
        with bootstraps:
            assert len(bootstraps.find(0).hosts) == 3
            bootstraps._asked = {number: Result(None) for number in client.ids}
            client.gone = {0}
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start()
    assert client.aborted == [1, 2]
    assert client.asked[3:] == [(1, "give_up"), (2, "give_up")]
