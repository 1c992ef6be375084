import os
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from jupyter_dist.engine import host_relay
from jupyter_dist.engine.host_relay import AGAIN_AFTER_S, HostRelay
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.protocol.births import EngineConfig, relay_path
from jupyter_dist.protocol.credentials import Credentials, KeyPair

PID = 7
ENDED = 9
"""Status of a process that was killed."""


@pytest.fixture
def births(tmp_path):
    return [
        EngineConfig(
            engine=str(rank),
            info=RankInfo(rank, 2, rank, 2, 0, "a"),
            generation=1,
            cluster="demo",
            engines_address="tcp://10.0.0.1:1",
            beats_address="tcp://10.0.0.1:2",
            credentials=Credentials("server", KeyPair("public", "secret")),
            run_dir=str(tmp_path),
            memory_dir=str(tmp_path),
            relay="relay-secret",
        )
        for rank in range(2)
    ]


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr(host_relay, "monotonic", lambda: clock.now_s)
    return clock


class Forks:
    """Counts what would be forked."""

    def __init__(self, error=None):
        self.count, self.error = 0, error

    def __call__(self, live):
        self.count += 1
        if self.error:
            raise self.error
        return PID


def test_engines_that_are_spawned_have_no_relay(births):
    assert list(HostRelay().serve(births, None)) == [replace(each, relay="") for each in births]
    assert not os.path.exists(relay_path(births[0].run_dir))


def test_one_relay_is_started_for_all_and_another_one_when_it_has_ended(births):
    relay, forks = HostRelay(), Forks()
    assert list(relay.serve(births, forks)) == births
    assert os.path.exists(relay_path(births[0].run_dir)), "it listens before a rank is there"
    relay.serve(births, forks)
    assert (relay.pid, forks.count) == (PID, 1)
    relay.on_end(PID + 1, ENDED)
    assert relay.pid == PID
    relay.on_end(PID, ENDED)
    assert relay.pid == 0, "one that ends at once is not followed by the next"
    relay.serve(births, forks)
    assert (relay.pid, forks.count) == (PID, 2)


def test_another_relay_takes_the_place_of_one_that_ends(births, clock):
    relay, forks = HostRelay(), Forks()
    relay.serve(births, forks)
    for count in (2, 3):
        clock.now_s += AGAIN_AFTER_S
        relay.on_end(PID, ENDED)
        assert (relay.pid, forks.count) == (PID, count)
    clock.now_s += AGAIN_AFTER_S
    forks.error = OSError("no more processes")
    relay.on_end(PID, ENDED)
    assert relay.pid == 0


def test_ranks_that_are_to_have_none_get_none(births):
    forks = Forks()
    HostRelay().serve([birth for birth in births if not birth.relay], forks)
    assert not forks.count


@pytest.mark.parametrize("is_path_too_long", [False, True])
def test_where_none_can_be_started_ranks_dial_the_coordinator(births, is_path_too_long, tmp_path):
    relay, forks = HostRelay(), Forks(OSError("no more processes"))
    if is_path_too_long:
        deep = tmp_path / ("long" * 30)
        deep.mkdir()
        births = [replace(birth, run_dir=str(deep)) for birth in births]
    assert [birth.relay for birth in relay.serve(births, forks)] == ["", ""]
    assert not relay.pid
