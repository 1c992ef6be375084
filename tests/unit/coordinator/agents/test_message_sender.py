import signal
from unittest.mock import Mock

import pytest

from jupyter_dist.coordinator.agents.message_sender import MessageSender
from jupyter_dist.protocol import host_agent_pb2 as pb


class RecordingAgents:
    """Agents that take every command, but for those of hosts that do not attend."""

    def __init__(self):
        self.commands = []
        self.absent = set()

    def send(self, host, command):
        if host in self.absent:
            return False
        self.commands.append((host, getattr(command, command.WhichOneof("command"))))
        return True


@pytest.fixture
def agents():
    return RecordingAgents()


@pytest.fixture
def dispatch(cluster, agents):
    return MessageSender(cluster.roster, None, None, None, agents)


def test_signals_of_two_clients_that_count_alike_are_told_apart(dispatch, agents):
    for _client in range(2):
        dispatch.send_signal((0,), signal.SIGINT, "request-1")
    first, second = (command.request_id for _, command in agents.commands)
    assert first != second
    assert dispatch.signals_under_way == {f"{first}@a", f"{second}@a"}


def test_a_signal_has_one_id_on_all_hosts(dispatch, agents):
    dispatch.send_signal((1, 2, 3), signal.SIGINT, "request-1", "cell-1")
    (a, to_a), (b, to_b) = agents.commands
    assert (a, list(to_a.engines), b, list(to_b.engines)) == ("a", ["1"], "b", ["2", "3"])
    assert to_a.request_id == to_b.request_id
    assert to_a.request_id.endswith("-request-1")
    assert (to_a.signal, to_a.cell_id) == (signal.SIGINT, "cell-1")


def test_nothing_is_under_way_to_a_host_that_does_not_attend(dispatch, agents):
    agents.absent = {"a", "b"}
    dispatch.send_signal((0, 3), signal.SIGINT, "request-1")
    assert dispatch.signals_under_way == set()


def order_engines(dispatch, path):
    dispatch.to_agent("a", pb.AgentCommand(start_engines=pb.StartEngines(home_path=path)))


def test_ranks_of_this_machine_come_by_unix_sockets(cluster, agents):
    engines, beats = Mock(), Mock()
    dispatch = MessageSender(cluster.roster, engines, None, beats, agents)
    for path in ("/run/a/home", "/run/a/home", ""):
        order_engines(dispatch, path)
    engines.bind_unix.assert_called_once_with("/run/a/home")
    beats.bind_unix.assert_called_once_with("/run/a/home-beats")
    assert [told.home_path for _, told in agents.commands] == ["/run/a/home", "/run/a/home", ""]


@pytest.mark.parametrize("closed", ["engines", "beats"])
def test_they_come_by_tcp_where_a_path_cannot_be_listened_at(cluster, agents, closed):
    listeners = {"engines": Mock(), "beats": Mock()}
    listeners[closed].bind_unix.side_effect = OSError("too long")
    dispatch = MessageSender(cluster.roster, listeners["engines"], None, listeners["beats"], agents)
    order_engines(dispatch, "/run/a/home")
    assert [told.home_path for _, told in agents.commands] == [""]
