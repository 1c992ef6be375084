import pytest
from fakes.coming_agents import ComingAgents

from jupyter_dist.coordinator.audience import (
    FAILED_START_KEEP_S,
    PRESENCE_LEASE_S,
    WATCH_LEASE_S,
    Audience,
)
from jupyter_dist.launch.base import Approach
from jupyter_dist.model.interfaces import Interface
from jupyter_dist.model.start_stage import StartStage
from jupyter_dist.model.topology import Topology
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    ClusterReady,
    Refused,
    StartProgress,
    TopologyChanged,
    WatchTopology,
)

KEEP_S = 100.0


def describe(state="ready"):
    return Topology(cluster="demo", state=state)


@pytest.fixture
def coming():
    return ComingAgents()


@pytest.fixture
def audience(starting, coming):
    return Audience(starting.roster, starting.rendezvous, starting.outbox, KEEP_S, coming)


def watch(audience, now_s, interval_s=1.0, client=b"w"):
    audience.hear(client, now_s)
    audience.watch(client, WatchTopology("w1", interval_s), describe, now_s)


def pictures(cluster, client=b"w"):
    return len(cluster.outbox.told(TopologyChanged, client))


class TestStart:
    def test_progress_is_told_when_it_changes(self, audience, starting):
        audience.await_ready(b"me", "r1")
        audience.on_progress(0.0)
        audience.on_progress(0.3)
        starting.roster.hosts["a"].joined = pb.Joined(host="a")
        audience.on_progress(0.6)
        starting.roster.hosts["b"].joined = pb.Joined(host="b")
        audience.on_progress(0.9)
        starting.join()
        audience.on_progress(1.2)
        assert [
            (m.stage, m.ready_ranks, m.world_size) for m in starting.outbox.told(StartProgress)
        ] == [
            ("waiting for a, b", 0, 4),
            ("waiting for b", 0, 4),
            ("starting ranks", 0, 4),
            ("starting ranks", 4, 4),
        ]

    def test_changes_are_told_at_most_five_times_a_second_and_the_last_one_comes(
        self, audience, starting, coming
    ):
        audience.await_ready(b"me", "r1")
        for step in range(101):
            coming.approaches["a"] = Approach("ssh connects", step % 2 == 0)
            audience.on_progress(step / 100)
        told = starting.outbox.told(StartProgress)
        assert 4 <= len(told) <= 6
        assert {host.stage for m in told for host in m.hosts} <= {StartStage.SSH, StartStage.AGENT}

    def test_where_nothing_changes_the_seconds_of_a_stage_do(self, audience, starting):
        audience.await_ready(b"me", "r1")
        for step in range(31):
            audience.on_progress(step / 10)
        told = starting.outbox.told(StartProgress)
        assert [round(m.hosts[0].seconds) for m in told] == [1, 2, 3, 4]

    def test_each_host_is_told_by_its_stage_and_what_it_has_behind_it(
        self, audience, starting, coming
    ):
        audience.await_ready(b"me", "r1")
        audience.on_progress(0.0)
        coming.approaches["b"] = Approach("the agent dials home")
        starting.roster.hosts["a"].joined = pb.Joined(host="a")
        audience.on_progress(1.0)
        a, b = starting.outbox.told(StartProgress)[-1].hosts
        assert (a.host, a.stage, a.is_up, a.passed_s) == ("a", StartStage.WAITING, True, {"ssh": 2})
        assert (b.stage, b.note, b.is_up) == (StartStage.AGENT, "the agent dials home", False)

    def test_the_last_word_before_ready_has_the_times_of_all_stages(self, audience, starting):
        audience.await_ready(b"me", "r1")
        for host in starting.roster.hosts.values():
            host.joined, host.interface = pb.Joined(host=host.name), Interface("lo", "127.0.0.1", 8)
        audience.on_progress(1.0)
        starting.join(0, 1)
        audience.on_progress(1.5)
        starting.join()
        audience.tell_ready(2.0)
        *_, last, ready = starting.outbox.told((StartProgress, ClusterReady))
        assert isinstance(ready, ClusterReady)
        assert last.passed_s == {"hosts": 2.0, "engines": 1.0, "communicator": 0.0}
        assert {host.stage for host in last.hosts} == {StartStage.READY}

    def test_who_hears_of_a_failure_hears_who_was_how_far(self, audience, starting, coming):
        audience.on_progress(0.0)
        coming.approaches["b"] = Approach("ssh connects", True, "connection refused on port 22")
        audience.await_ready(b"me", "r1")
        audience.tell_start_failed("b: connection refused on port 22")
        audience.await_ready(b"late", "r2")
        for client in (b"me", b"late"):
            a, b = starting.outbox.told(StartProgress, client)[-1].hosts
            assert a.stage is StartStage.SSH
            assert (b.stage, b.note) == (StartStage.LOST, "connection refused on port 22")

    def test_a_second_client_hears_how_far_it_is(self, audience, starting):
        audience.await_ready(b"me", "r1")
        audience.on_progress(0.0)
        audience.await_ready(b"you", "r2")
        audience.on_progress(0.1)
        assert len(starting.outbox.told(StartProgress, b"you")) == 1

    def test_ready_is_told_to_everyone_who_waits_and_once(self, audience, starting):
        starting.roster.hosts["a"].joined = pb.Joined(host="a", log_dir="/tmp/x")
        audience.await_ready(b"me", "r1")
        audience.await_ready(b"you", "r2")
        audience.tell_ready(0.0)
        audience.tell_ready(0.0)
        assert starting.outbox.told(ClusterReady) == [
            ClusterReady("r1", 1, 4, {"a": "/tmp/x"}),
            ClusterReady("r2", 1, 4, {"a": "/tmp/x"}),
        ]

    def test_whoever_comes_later_hears_at_once_that_it_is_ready(self, audience, starting):
        audience.tell_ready(0.0)
        audience.await_ready(b"late", "r3")
        assert starting.outbox.told(ClusterReady, b"late")[0].request_id == "r3"

    def test_a_failure_is_told_to_those_who_wait_and_to_those_who_come(self, audience, starting):
        audience.await_ready(b"me", "r1")
        audience.tell_start_failed("rank 2 ended")
        audience.await_ready(b"late", "r2")
        assert starting.outbox.told(Refused) == [
            Refused("r1", "StartFailed", "rank 2 ended"),
            Refused("r2", "StartFailed", "rank 2 ended"),
        ]

    def test_a_failure_that_nobody_waited_for_is_not_heard_yet(self, audience):
        audience.tell_start_failed("rank 2 ended")
        assert not audience.heard_refusal
        audience.await_ready(b"late", "r2")
        assert audience.heard_refusal


class TestWatching:
    def test_one_picture_only_when_no_interval_is_given(self, audience, starting):
        watch(audience, 0.0, interval_s=0.0)
        audience.tick(describe, 5.0)
        assert pictures(starting) == 1

    def test_a_picture_at_once_and_then_at_the_interval(self, audience, starting):
        watch(audience, 0.0, interval_s=1.0)
        assert pictures(starting) == 1
        for tick in range(1, 31):
            audience.tick(describe, tick / 10)
        assert pictures(starting) == 4

    def test_nobody_gets_pictures_faster_than_the_limit(self, audience, starting):
        watch(audience, 0.0, interval_s=0.001)
        for tick in range(1, 101):
            audience.tick(describe, tick / 100)
        assert pictures(starting) <= 6

    def test_a_watcher_that_is_silent_is_forgotten(self, audience, starting):
        watch(audience, 0.0)
        audience.tick(describe, WATCH_LEASE_S)
        assert pictures(starting) == 1

    def test_a_watcher_that_is_heard_stays(self, audience, starting):
        watch(audience, 0.0)
        audience.hear(b"w", 10.0)
        audience.tick(describe, WATCH_LEASE_S)
        assert pictures(starting) == 2

    def test_asking_again_does_not_put_off_what_is_due(self, audience, starting):
        """Presence is shown every 4 s; a picture wanted every 5 s must still come."""
        for second in range(21):
            if second % 4 == 0:
                watch(audience, float(second), interval_s=5.0)
            audience.tick(describe, float(second))
        assert pictures(starting) >= 4

    def test_asking_with_interval_0_ends_the_pictures(self, audience, starting):
        watch(audience, 0.0, interval_s=1.0)
        watch(audience, 0.5, interval_s=0.0)
        assert pictures(starting) == 2
        for second in range(1, 10):
            audience.hear(b"w", float(second))
            audience.tick(describe, float(second))
        assert pictures(starting) == 2

    def test_the_last_picture_says_that_it_is_over(self, audience, starting):
        watch(audience, 0.0)
        audience.say_farewell(describe)
        assert starting.outbox.told(TopologyChanged)[-1].topology.state == "stopped"


class TestBeingAlone:
    def test_a_cluster_nobody_wants_is_gone_after_its_time(self, audience):
        audience.tick(describe, 0.0)
        assert not audience.is_gone(PRESENCE_LEASE_S + KEEP_S)
        assert audience.is_gone(PRESENCE_LEASE_S + KEEP_S + 0.1)

    def test_a_client_that_is_heard_keeps_it(self, audience):
        audience.tick(describe, 0.0)
        audience.hear(b"me", 50.0)
        assert not audience.is_gone(PRESENCE_LEASE_S + KEEP_S + 50.0)
        assert audience.is_gone(PRESENCE_LEASE_S + KEEP_S + 50.1)

    def test_the_absence_of_the_coordinator_itself_is_not_theirs(self, audience):
        audience.excuse_silence(1e9)
        assert not audience.is_gone(1e9)  # nobody was there before
        audience.hear(b"me", 0.0)
        audience.excuse_silence(1e9)
        assert not audience.is_gone(1e9 + PRESENCE_LEASE_S + KEEP_S)
        assert audience.is_gone(1e9 + PRESENCE_LEASE_S + KEEP_S + 0.1)

    def test_time_begins_with_the_first_tick(self, audience):
        assert not audience.is_gone(1e9)
        audience.tick(describe, 1e9)
        assert not audience.is_gone(1e9 + KEEP_S)

    def test_a_start_that_failed_is_kept_only_for_a_moment(self, audience):
        audience.tick(describe, 0.0)
        audience.tell_start_failed("no")
        assert audience.is_gone(PRESENCE_LEASE_S + FAILED_START_KEEP_S + 0.1)
