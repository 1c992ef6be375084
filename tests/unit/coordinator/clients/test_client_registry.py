import pytest
from fakes.coming_agents import ComingAgents

from jupyter_dist.coordinator.clients.client_registry import (
    FAILED_START_KEEP_S,
    PRESENCE_LEASE_S,
    ClientRegistry,
)
from jupyter_dist.errors import ErrorCode
from jupyter_dist.launch.launcher import LaunchProgress
from jupyter_dist.model.hosts.interfaces import Interface
from jupyter_dist.model.hosts.start_stage import StartStage
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    ClusterReady,
    Refused,
    StartProgress,
)

KEEP_S = 100.0


@pytest.fixture
def coming():
    return ComingAgents()


@pytest.fixture
def registry(starting, coming):
    return ClientRegistry(starting.roster, starting.rendezvous, starting.sender, KEEP_S, coming)


class TestStart:
    def test_progress_is_told_when_it_changes(self, registry, starting):
        registry.await_ready(b"me", "r1")
        registry.on_progress(0.0)
        registry.on_progress(0.3)
        starting.roster.hosts["a"].joined = pb.Joined(host="a")
        registry.on_progress(0.6)
        starting.roster.hosts["b"].joined = pb.Joined(host="b")
        registry.on_progress(0.9)
        starting.join()
        registry.on_progress(1.2)
        assert [
            (m.stage, m.ready_ranks, m.world_size) for m in starting.sender.told(StartProgress)
        ] == [
            ("waiting for a, b", 0, 4),
            ("waiting for b", 0, 4),
            ("starting ranks", 0, 4),
            ("starting ranks", 4, 4),
        ]

    def test_changes_are_told_at_most_five_times_a_second_and_the_last_one_comes(
        self, registry, starting, coming
    ):
        registry.await_ready(b"me", "r1")
        for step in range(101):
            coming.approaches["a"] = LaunchProgress("ssh connects", step % 2 == 0)
            registry.on_progress(step / 100)
        told = starting.sender.told(StartProgress)
        assert 4 <= len(told) <= 6
        assert {host.stage for m in told for host in m.hosts} <= {StartStage.SSH, StartStage.AGENT}

    def test_where_nothing_changes_the_seconds_of_a_stage_do(self, registry, starting):
        registry.await_ready(b"me", "r1")
        for step in range(31):
            registry.on_progress(step / 10)
        told = starting.sender.told(StartProgress)
        assert [round(m.hosts[0].seconds) for m in told] == [1, 2, 3, 4]

    def test_each_host_is_told_by_its_stage_and_what_it_has_behind_it(
        self, registry, starting, coming
    ):
        registry.await_ready(b"me", "r1")
        registry.on_progress(0.0)
        coming.approaches["b"] = LaunchProgress("dials home")
        starting.roster.hosts["a"].joined = pb.Joined(host="a")
        registry.on_progress(1.0)
        a, b = starting.sender.told(StartProgress)[-1].hosts
        assert (a.host, a.stage, a.is_up, a.passed_s) == ("a", StartStage.WAITING, True, {"ssh": 2})
        assert (b.stage, b.note, b.is_up) == (StartStage.AGENT, "dials home", False)

    def test_the_last_word_before_ready_has_the_times_of_all_stages(self, registry, starting):
        registry.await_ready(b"me", "r1")
        for host in starting.roster.hosts.values():
            host.joined, host.interface = pb.Joined(host=host.name), Interface("lo", "127.0.0.1", 8)
        registry.on_progress(1.0)
        starting.join(0, 1)
        registry.on_progress(1.5)
        starting.join()
        registry.tell_ready(2.0)
        *_, last, ready = starting.sender.told((StartProgress, ClusterReady))
        assert isinstance(ready, ClusterReady)
        assert last.passed_s == {"hosts": 2.0, "engines": 1.0, "communicator": 0.0}
        assert {host.stage for host in last.hosts} == {StartStage.READY}

    def test_who_hears_of_a_failure_hears_who_was_how_far(self, registry, starting, coming):
        registry.on_progress(0.0)
        coming.approaches["b"] = LaunchProgress("ssh connects", True, "port 22 refused")
        registry.await_ready(b"me", "r1")
        registry.tell_start_failed("b: port 22 refused")
        registry.await_ready(b"late", "r2")
        for client in (b"me", b"late"):
            a, b = starting.sender.told(StartProgress, client)[-1].hosts
            assert a.stage is StartStage.SSH
            assert (b.stage, b.note) == (StartStage.LOST, "port 22 refused")

    def test_a_second_client_hears_how_far_it_is(self, registry, starting):
        registry.await_ready(b"me", "r1")
        registry.on_progress(0.0)
        registry.await_ready(b"you", "r2")
        registry.on_progress(0.1)
        assert len(starting.sender.told(StartProgress, b"you")) == 1

    def test_ready_is_told_to_everyone_who_waits_or_comes_later_and_once(self, registry, starting):
        starting.roster.hosts["a"].joined = pb.Joined(host="a", log_dir="/tmp/x")
        registry.await_ready(b"me", "r1")
        registry.await_ready(b"you", "r2")
        registry.tell_ready(0.0)
        registry.tell_ready(0.0)
        registry.await_ready(b"late", "r3")
        assert starting.sender.told(ClusterReady) == [
            ClusterReady(request_id, 1, 4, {"a": "/tmp/x"}) for request_id in ("r1", "r2", "r3")
        ]

    @pytest.mark.parametrize("waits", [True, False])
    def test_a_failure_is_told_to_those_who_wait_and_to_those_who_come(
        self, registry, starting, waits
    ):
        if waits:
            registry.await_ready(b"me", "r1")
        registry.tell_start_failed("rank 2 ended")
        assert registry.heard_refusal == waits
        registry.await_ready(b"late", "r2")
        assert registry.heard_refusal
        assert starting.sender.told(Refused) == [
            Refused(request_id, ErrorCode.START_FAILED, "rank 2 ended")
            for request_id in (("r1", "r2") if waits else ("r2",))
        ]


class TestBeingAlone:
    def test_a_cluster_nobody_wants_is_gone_after_its_time(self, registry):
        registry.tick(0.0)
        assert not registry.is_gone(PRESENCE_LEASE_S + KEEP_S)
        assert registry.is_gone(PRESENCE_LEASE_S + KEEP_S + 0.1)
        registry.hear(b"me", 50.0)
        assert not registry.is_gone(PRESENCE_LEASE_S + KEEP_S + 50.0)
        assert registry.is_gone(PRESENCE_LEASE_S + KEEP_S + 50.1)

    def test_the_absence_of_the_coordinator_itself_is_not_theirs(self, registry):
        registry.excuse_silence(1e9)
        assert not registry.is_gone(1e9)  # nobody was there before
        registry.hear(b"me", 0.0)
        registry.excuse_silence(1e9)
        assert not registry.is_gone(1e9 + PRESENCE_LEASE_S + KEEP_S)
        assert registry.is_gone(1e9 + PRESENCE_LEASE_S + KEEP_S + 0.1)

    def test_time_begins_with_the_first_tick(self, registry):
        assert not registry.is_gone(1e9)
        registry.tick(1e9)
        assert not registry.is_gone(1e9 + KEEP_S)

    def test_a_start_that_failed_is_kept_only_for_a_moment(self, registry):
        registry.tick(0.0)
        registry.tell_start_failed("no")
        assert registry.is_gone(PRESENCE_LEASE_S + FAILED_START_KEEP_S + 0.1)
