import json
import signal
from types import SimpleNamespace

import msgspec
import pytest

from jupyter_dist.coordinator.ipyparallel.controller import (
    LEAVE_TIMEOUT_S,
    USER_LEASE_S,
    IpyparallelController,
)
from jupyter_dist.coordinator.ipyparallel.members import choose_address, find_way
from jupyter_dist.coordinator.state.engine_state import EngineEvent
from jupyter_dist.errors import ErrorCode
from jupyter_dist.frameworks.ipyparallel.controller_messages import (
    Failed,
    Registered,
    Serving,
    Unregistered,
)
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    ControllerEnded,
    ControllerJoined,
    ControllerLeft,
    ControllerReady,
    EndController,
    JoinController,
    LeaveController,
    Refused,
    StartController,
    TaskBegan,
    TaskEnded,
)

SERVING = Serving({"interface": "tcp://127.0.0.1", "mux": 1}, {"interface": "tcp://x", "mux": 2})


class ControllerFake:
    """A controller's process that tells what it is given."""

    pid = 4711

    def __init__(self, *started_with):
        self.started_with = started_with
        self.telling = []
        self.is_running = True
        self.is_asked_to_end = False
        self.is_closed = False
        self.unregistered = []

    def unregister(self, ranks):
        self.unregistered += ranks

    def hear(self):
        told, self.telling = self.telling, []
        return told

    def explain(self):
        return "its process ended with status 1. It said last:\nno more memory"

    def end(self):
        self.is_asked_to_end = True

    def close(self, patience_s=0.0):
        self.is_closed, self.is_running = True, False


class Bridge:
    """Four ranks on the hosts a and b, and a controller that does as it is told."""

    def __init__(self, cluster):
        self.cluster, self.sender, self.roster = cluster, cluster.sender, cluster.roster
        self.processes = []
        self.clients = SimpleNamespace(has_been_ready=True)
        self.parallel = IpyparallelController(
            cluster.roster,
            cluster.rendezvous,
            cluster.sender,
            cluster.spec,
            self.clients,
            self._start,
        )
        self.come_home("127.0.0.1")

    def _start(self, *arguments):
        self.processes.append(ControllerFake(*arguments))
        return self.processes[-1]

    @property
    def process(self):
        return self.processes[-1]

    def come_home(self, home, *hosts):
        for host in hosts or self.roster.hosts:
            self.roster.hosts[host].joined = pb.Joined(home_address=home)

    def want(self, client=b"client-1-a.1", request_id="r1", now_s=1.0, timeout_s=15.0):
        request = StartController(request_id, timeout_s)
        self.parallel.on_start(client, request, now_s)

    def want_no_more(self, client=b"client-1-a.1", now_s=1.0, *, is_left_to_others=False):
        request = EndController("e1", is_left_to_others)
        self.parallel.on_end(client, request, now_s)

    def serve(self, now_s=1.0):
        self.process.telling.append(SERVING)
        self.parallel.tick(now_s)

    def asked(self, kind=JoinController):
        """Requests of this kind since the last time, by rank."""
        found = {
            rank: message
            for rank, message, _ in self.sender.engines
            if type(message) is kind and message.request_id
        }
        self.sender.engines.clear()
        return found

    def join(self, problem="", now_s=1.0):
        """Let all that were asked join."""
        for rank, request in self.asked().items():
            self.parallel.on_engine(ControllerJoined(rank, request.request_id, problem), now_s)
            self.process.telling.append(Registered(rank))
        self.parallel.tick(now_s)

    def leave(self, now_s=1.0):
        for rank, request in self.asked(LeaveController).items():
            self.parallel.on_engine(ControllerLeft(rank, request.request_id), now_s)
        self.parallel.tick(now_s)

    def begin(self):
        self.want()
        self.serve()
        self.join()

    def begin_for_two(self):
        """Let a second client want what a first one has."""
        self.begin()
        self.want(b"client-2-b.1", "r2")
        self.parallel.tick(1.1)

    def forget(self, rank, now_s=2.0):
        """Lose a rank, and let the controller forget it."""
        self.cluster.lose(rank)
        self.parallel.tick(now_s)
        self.process.telling.append(Unregistered((rank,)))

    def fail(self, word):
        """Let the controller end, with a word or without one."""
        if word is not None:
            self.process.telling.append(word)
        self.process.is_running = False
        self.parallel.tick(1.0)

    def refusal(self):
        (refused,) = self.sender.told(Refused)
        assert refused.code == ErrorCode.FRAMEWORK_ERROR
        return refused.reason


@pytest.fixture
def bridge(cluster):
    return Bridge(cluster)


def test_a_client_gets_the_connection_when_every_rank_has_joined(bridge):
    bridge.want()
    assert bridge.asked() == {}, "there is nothing to join yet"
    bridge.serve()
    requests = bridge.asked()
    assert sorted(requests) == [0, 1, 2, 3]
    for rank in (0, 1, 2):
        bridge.parallel.on_engine(ControllerJoined(rank, requests[rank].request_id), 1.0)
    bridge.parallel.tick(1.0)
    assert bridge.sender.told(ControllerReady) == []
    bridge.process.telling += [Registered(rank) for rank in (0, 1, 2)]
    bridge.parallel.on_engine(ControllerJoined(3, requests[3].request_id), 1.0)
    bridge.parallel.tick(1.0)
    assert bridge.sender.told(ControllerReady) == [], "clients would not see rank 3 yet"
    bridge.process.telling.append(Registered(3))
    bridge.parallel.tick(1.5)
    (ready,) = bridge.sender.told(ControllerReady)
    assert ready.ranks == (0, 1, 2, 3)
    assert json.loads(ready.connection) == {
        **SERVING.client,
        "pid": 4711,
        "address": "127.0.0.1",
        "registration_s": 0.5,
    }


def test_engines_make_ready_while_the_controller_starts(bridge):
    bridge.want()
    sent = bridge.sender.sent_to_ranks(JoinController)
    assert sent == {rank: [JoinController("", b"", rank)] for rank in range(4)}


def test_engines_get_the_address_by_which_their_host_has_come(bridge):
    bridge.come_home("10.0.0.1", "b")
    bridge.want()
    bridge.serve()
    addresses = {
        rank: json.loads(request.connection)["interface"]
        for rank, request in bridge.asked().items()
    }
    assert addresses == dict.fromkeys(range(4), "tcp://10.0.0.1"), "a is on this machine"
    assert bridge.process.started_with[0] == "10.0.0.1"


def test_a_second_client_gets_the_same_controller_at_once(bridge):
    bridge.begin_for_two()
    assert len(bridge.processes) == 1
    assert [ready.request_id for ready in bridge.sender.told(ControllerReady)] == ["r1", "r2"]


def test_a_rank_that_cannot_join_is_named_with_its_reason_and_nothing_stays(bridge):
    bridge.want()
    bridge.serve()
    bridge.join("not installed")
    assert "ranks 0-3: not installed" in bridge.refusal()
    bridge.leave()
    assert bridge.process.is_asked_to_end


def test_ranks_that_do_not_answer_are_named_when_the_time_is_over(bridge):
    bridge.want(timeout_s=5.0)
    bridge.serve()
    requests = bridge.asked()
    bridge.parallel.on_engine(ControllerJoined(0, requests[0].request_id), 1.0)
    bridge.process.telling.append(Registered(0))
    bridge.parallel.tick(5.9)
    assert bridge.sender.told(Refused) == []
    bridge.parallel.tick(6.1)
    assert "ranks 1-3 " in bridge.refusal()


@pytest.mark.parametrize(
    ("word", "reason"), [(Failed("no free port"), "no free port"), (None, "no more memory")]
)
def test_a_controller_that_cannot_serve_or_ends_before_says_why(bridge, word, reason):
    bridge.want()
    bridge.fail(word)
    assert reason in bridge.refusal()
    assert bridge.process.is_closed
    bridge.want(request_id="r2")
    assert len(bridge.processes) == 2, "the next one gets another process"


def test_who_asks_when_the_controller_has_just_ended_gets_the_next_one(bridge):
    bridge.begin()
    bridge.sender.clients.clear()
    bridge.process.is_running = False
    bridge.want(request_id="r2", now_s=1.05)  # before anybody has looked after it
    assert bridge.sender.told(Refused) == []
    assert [process.is_closed for process in bridge.processes] == [True, False]


@pytest.mark.parametrize("has_begun", [False, True])
def test_without_any_rank_nobody_gets_a_controller(bridge, has_begun):
    if has_begun:
        bridge.want()
        bridge.serve()
    for rank in range(4):
        bridge.cluster.lose(rank)
    if has_begun:
        bridge.parallel.tick(2.0)
    else:
        bridge.want()
        assert bridge.processes == []
    assert bridge.sender.told(ControllerReady) == []
    assert "%dist_heal" in bridge.refusal()


def test_a_cluster_that_is_not_ready_has_none(bridge):
    bridge.clients.has_been_ready = False
    bridge.want()
    assert bridge.refusal()
    assert bridge.processes == []


def test_a_lost_rank_is_unregistered_and_the_one_in_its_place_joins_after_that(bridge):
    bridge.begin()
    bridge.cluster.lose(2)
    bridge.parallel.tick(2.0)
    assert bridge.process.unregistered == [2]
    bridge.roster.replace(2, bridge.roster[2].info)
    bridge.parallel.tick(3.0)
    assert bridge.asked() == {}, "it is not in any generation yet"
    bridge.roster[2].apply(EngineEvent.JOINED)
    bridge.parallel.tick(3.1)
    assert bridge.asked() == {}, "the controller has not forgotten the old one yet"
    bridge.process.telling.append(Unregistered((2,)))
    bridge.parallel.tick(3.2)
    assert sorted(bridge.asked()) == [2]


def test_ranks_with_new_numbers_leave_first_so_that_no_number_is_taken_twice(bridge):
    bridge.begin()
    bridge.forget(1)
    bridge.roster.shrink()  # 2 becomes 1, and 3 becomes 2
    bridge.parallel.tick(2.1)
    leaving = {rank: m for rank, m, _ in bridge.sender.engines if isinstance(m, LeaveController)}
    assert sorted(leaving) == [1, 2]
    assert bridge.asked() == {}
    bridge.parallel.on_engine(ControllerLeft(2, leaving[2].request_id), 2.2)
    bridge.parallel.tick(2.2)
    assert bridge.asked() == {}, "the one that is to be rank 2 left; another one still is"
    bridge.parallel.on_engine(ControllerLeft(1, leaving[1].request_id), 2.3)
    bridge.parallel.tick(2.3)
    assert {rank: request.rank for rank, request in bridge.asked().items()} == {1: 1, 2: 2}


def test_ranks_with_new_numbers_stay_until_all_have_met_as_one_may_run_a_task(bridge):
    bridge.begin()
    bridge.forget(1)
    bridge.roster.shrink()
    bridge.cluster.rendezvous.regroup()
    bridge.parallel.tick(2.1)
    assert bridge.asked(LeaveController) == {}
    bridge.cluster.join()
    bridge.parallel.tick(2.2)
    assert sorted(bridge.asked(LeaveController)) == [1, 2]


def test_an_engine_that_left_by_itself_is_asked_again_when_a_client_wants_it(bridge):
    bridge.begin()
    bridge.parallel.on_engine(ControllerLeft(1, reason="lost the controller"), 2.0)
    bridge.parallel.tick(2.0)
    assert bridge.process.unregistered == [1]
    assert bridge.asked() == {}
    bridge.process.telling.append(Unregistered((1,)))
    bridge.want(request_id="r2", now_s=3.0)
    bridge.parallel.tick(3.0)
    assert sorted(bridge.asked()) == [1]


def test_the_end_waits_until_engines_have_left(bridge):
    bridge.begin()
    bridge.want_no_more(now_s=2.0)
    bridge.parallel.tick(2.0)
    assert not bridge.process.is_asked_to_end
    bridge.leave(2.1)
    assert bridge.process.is_asked_to_end
    assert bridge.sender.told(ControllerEnded) == []
    bridge.process.is_running = False
    bridge.parallel.tick(2.2)
    assert bridge.sender.told(ControllerEnded) == [ControllerEnded("e1", was_running=True)]


def test_an_engine_that_does_not_leave_is_not_waited_for_long(bridge):
    bridge.begin()
    bridge.want_no_more(now_s=2.0)
    bridge.parallel.tick(2.0 + LEAVE_TIMEOUT_S)
    assert not bridge.process.is_asked_to_end
    bridge.parallel.tick(2.1 + LEAVE_TIMEOUT_S)
    assert bridge.process.is_asked_to_end
    bridge.parallel.tick(20.0)
    assert bridge.process.is_closed, "nor is a process that does not end"


def test_a_client_that_leaves_lets_others_go_on(bridge):
    bridge.begin_for_two()
    bridge.want_no_more(b"client-2-b.7", is_left_to_others=True)
    assert bridge.sender.told(ControllerEnded) == [ControllerEnded("e1", was_running=False)]
    assert bridge.asked(LeaveController) == {}
    bridge.want_no_more(b"client-1-a.9", is_left_to_others=True)
    assert sorted(bridge.asked(LeaveController)) == [0, 1, 2, 3]


def test_who_wants_a_controller_while_one_ends_gets_the_next_one(bridge):
    bridge.begin()
    bridge.want_no_more(now_s=2.0)
    bridge.want(b"client-2-b.1", "r2", now_s=2.0)
    bridge.leave(2.1)
    bridge.process.is_running = False
    bridge.parallel.tick(2.2)
    assert len(bridge.processes) == 2
    bridge.serve(2.3)
    bridge.join(now_s=2.4)
    assert [ready.request_id for ready in bridge.sender.told(ControllerReady)] == ["r1", "r2"]


def test_to_end_what_does_not_run_is_harmless(bridge):
    bridge.want_no_more()
    assert bridge.sender.told(ControllerEnded) == [ControllerEnded("e1", was_running=False)]


def test_a_task_is_noted_until_it_ends(bridge):
    bridge.parallel.on_engine(TaskBegan(2, "apply f", 1.5), 10.0)
    assert bridge.roster.ranks_in_tasks == [2]
    assert bridge.roster[2].task_since_s == 8.5
    bridge.parallel.on_engine(TaskEnded(2), 11.0)
    assert bridge.roster.ranks_in_tasks == []


@pytest.mark.parametrize(
    ("homes", "address"),
    [
        (["", "127.0.0.1"], "127.0.0.1"),
        (["127.0.0.1", "10.0.0.1"], "10.0.0.1"),
        (["10.0.0.1", "10.0.0.1"], "10.0.0.1"),
        (["10.0.0.1", "192.168.0.1"], "*"),
    ],
)
def test_the_controller_listens_only_where_hosts_come_from(bridge, homes, address):
    for host, home in zip(("a", "b"), homes, strict=True):
        bridge.come_home(home, host)
    assert choose_address(bridge.roster.hosts.values()) == (address, "")


@pytest.mark.parametrize(
    ("is_tunnel", "data"), [(True, ("b: ",)), (False, ("b: ", "fd00::1", "--interface"))]
)
def test_a_host_behind_a_tunnel_or_that_comes_by_ipv6_is_named(bridge, is_tunnel, data):
    host = bridge.roster.hosts["b"]
    host.spec = msgspec.structs.replace(host.spec, tunnel=is_tunnel)
    if not is_tunnel:
        bridge.come_home("fd00::1", "b")
    bridge.want()
    assert [each for each in data if each not in bridge.refusal()] == []
    assert bridge.processes == []


def test_a_host_that_came_another_way_later_is_told_what_to_do(bridge):
    host = bridge.roster.hosts["b"]
    bridge.come_home("10.9.9.9", "b")
    address, problem = find_way(host, "10.0.0.1")
    assert address == ""
    assert "%dist_ipyparallel --stop" in problem
    assert find_way(host, "*") == ("10.9.9.9", "")


def test_ranks_on_new_hosts_are_asked_with_their_own_address(bridge):
    bridge.begin()
    info = RankInfo(3, 4, 1, 2, 1, "b")
    bridge.forget(3)
    bridge.roster.replace(3, info)
    bridge.roster[3].apply(EngineEvent.JOINED)
    bridge.parallel.tick(2.1)
    assert json.loads(bridge.asked()[3].connection)["interface"] == "tcp://127.0.0.1"


@pytest.mark.parametrize(
    ("line", "heard_s", "leaving"),
    [(b"client-2-b.3", USER_LEASE_S, [0, 1, 2, 3]), (b"client-1-a.3", 2 * USER_LEASE_S, [])],
)
def test_a_client_keeps_the_controller_while_it_shows_itself(bridge, line, heard_s, leaving):
    bridge.begin_for_two()
    bridge.parallel.hear(line, heard_s)
    bridge.want_no_more(b"client-2-b.7", now_s=2 * USER_LEASE_S, is_left_to_others=True)
    assert sorted(bridge.asked(LeaveController)) == leaving


def test_a_cell_that_was_to_end_behind_a_task_is_interrupted_when_it_begins(bridge):
    bridge.begin()
    bridge.parallel.on_engine(TaskBegan(2, "apply train"), 2.0)
    bridge.roster.owe_interrupt([2], "cell-9")
    assert bridge.sender.signals == []
    bridge.parallel.on_engine(TaskEnded(2), 3.0)
    assert bridge.sender.signals == [((2,), signal.SIGINT, "owed-2-cell-9")]
    bridge.parallel.on_engine(TaskEnded(2), 4.0)
    assert len(bridge.sender.signals) == 1
