from unittest.mock import Mock, create_autospec

import pytest

from jupyter_dist.cluster.spec.host_list import parse_hosts
from jupyter_dist.control.router import Received
from jupyter_dist.coordinator.coordinator import Coordinator
from jupyter_dist.coordinator.observation.verdict import HangVerdict
from jupyter_dist.coordinator.requests import Requests
from jupyter_dist.coordinator.state.clock import NEVER
from jupyter_dist.model.spec.cluster_spec import ClusterSpec
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import ControllerLeft, TaskBegan, TaskEnded, WatchTopology


@pytest.fixture
def coordinator():
    """The loop without its sockets."""
    spec = ClusterSpec(name="demo", hosts=parse_hosts("a:2"))
    arrivals = Mock(job=None)
    arrivals.problem.return_value = ""
    engines, clients, beats, agents, credentials = (Mock() for _ in range(5))
    beats.last_beat_s.return_value = beats.oldest_s.return_value = 0.0
    agents.judge.return_value = NEVER
    agents.receive.return_value = ()
    return Coordinator(spec, engines, clients, beats, agents, arrivals, credentials)


def test_each_tick_lets_go_of_what_clients_have_left_half_done(coordinator):
    requests = coordinator._requests = create_autospec(Requests, instance=True)
    requests.stop_request = None
    coordinator._tick(7.0, 100.0)
    requests.tick.assert_called_once_with(7.0)


def test_what_agents_observe_is_read_with_each_tick_and_wakes_the_loop_for_who_waits(coordinator):
    coordinator.roster.take_joined("a", pb.Joined())
    telemetry = pb.AgentEvent(telemetry=pb.Telemetry(cpu_percent=7.0))
    coordinator._agents.receive.return_value = [("a", telemetry)]
    coordinator._tick(7.0, 100.0)
    assert coordinator.roster.hosts["a"].observed.cpu_percent == 7.0
    assert not coordinator._agents.is_telemetry_awaited
    coordinator._agents.receive.return_value = ()
    coordinator.roster.hosts["a"].looked_s = -1.0
    coordinator._pictures.watch(b"me", WatchTopology("look"), 8.0)
    coordinator._tick(8.0, 100.0)
    assert coordinator._agents.is_telemetry_awaited


def test_the_note_is_the_verdict_on_the_cell_or_else_how_healing_goes(coordinator):
    coordinator._recovery.note = "no place"
    assert coordinator.describe().note == "no place"
    coordinator._scheduler.judge = lambda: HangVerdict("hang", "rank 0 waits")
    assert coordinator.describe().note == "rank 0 waits"


def test_what_is_said_of_ipyparallel_holds_for_the_engine_whatever_number_it_goes_by(coordinator):
    roster = coordinator.roster
    coordinator._take_from_engine(Received(b"1", TaskBegan(1, "apply train"), []), 1.0)
    roster.lose(0, "killed")
    roster.shrink()
    assert roster.ranks_in_tasks == [0]
    heard = coordinator._ipyparallel._members.on_left = Mock()
    coordinator._take_from_engine(Received(b"1", ControllerLeft(1, "leave-1"), []), 2.0)
    heard.assert_called_once_with(ControllerLeft(0, "leave-1"))
    coordinator._take_from_engine(Received(b"1", TaskEnded(1), []), 3.0)
    assert roster.ranks_in_tasks == []
