"""The end of a cluster: agents are told to leave, and everyone waits for their word."""

from time import monotonic

from jupyter_dist.control.poller import Poller
from jupyter_dist.coordinator.agents.agent_service import AgentService
from jupyter_dist.coordinator.recovery.host_events import HostEvents
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.model.spec.shutdown_time import AGENTS_WORD_S, LEAVE_GRACE_S
from jupyter_dist.protocol import host_agent_pb2 as pb

_SLICE_S = 0.1


def dismiss_agents(roster: Roster, agents: AgentService, hosts: HostEvents) -> set[str]:
    """Let every agent end, and wait for their word, at most a few seconds.

    Gives the hosts whose agent has not confirmed: it never came, is stuck, or was lost.
    """
    stop = pb.AgentCommand(stop=pb.Stop(grace_s=LEAVE_GRACE_S))
    joined = {name for name, host in roster.hosts.items() if host.joined}
    waiting = {host for host in joined if agents.send(host, stop)}
    poller = Poller()
    poller.add(agents.waker)
    deadline_s = monotonic() + AGENTS_WORD_S
    broken: set[str] = set()
    while waiting - hosts.stopped - broken and monotonic() < deadline_s:
        poller.wait(_SLICE_S)
        agents.judge(monotonic(), dict)  # a host that fell silent before is given up in time
        for host, event in agents.receive():
            if event is None:
                broken.add(host)  # without its word, unless that came before
            elif event.WhichOneof("event") == "all_stopped":
                hosts.stopped.add(host)
    lost = {name for name, host in roster.hosts.items() if host.is_lost}
    return (set(roster.hosts) - hosts.stopped) | lost
