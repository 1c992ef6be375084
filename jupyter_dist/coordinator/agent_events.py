"""What agents say, on its way to the parts of the coordinator that it concerns."""

from collections.abc import Callable
from typing import NamedTuple

from jupyter_dist.coordinator.agents import AgentService
from jupyter_dist.coordinator.hosts import Hosts
from jupyter_dist.coordinator.nccl_witness import RAS_EVENTS, RasReading
from jupyter_dist.coordinator.preemption import NOTICE_EVENTS, Preemption
from jupyter_dist.coordinator.questions import QUESTION_EVENTS, Questions
from jupyter_dist.coordinator.recording import RECORD_EVENTS, Recording
from jupyter_dist.coordinator.services import SERVICE_EVENTS, Services
from jupyter_dist.coordinator.syncing import CODE_EVENTS, Syncing
from jupyter_dist.protocol import host_agent_pb2 as pb


class Listeners(NamedTuple):
    """Parts that hear of agents."""

    hosts: Hosts
    syncing: Syncing
    recording: Recording
    questions: Questions
    ras: RasReading
    services: Services
    preemption: Preemption


class AgentEvents:
    """Hands each event over, and the end of each agent."""

    def __init__(self, agents: AgentService, listeners: Listeners) -> None:
        self._agents = agents
        self._to = to = listeners
        self._takers: dict[str, Callable[[str, pb.AgentEvent, float], None]] = {
            **dict.fromkeys(CODE_EVENTS, lambda host, event, _: to.syncing.on_event(host, event)),
            **dict.fromkeys(RECORD_EVENTS, to.recording.on_event),
            **dict.fromkeys(QUESTION_EVENTS, to.questions.on_event),
            **dict.fromkeys(NOTICE_EVENTS, to.preemption.on_event),
            **dict.fromkeys(RAS_EVENTS, lambda _host, event, _: to.ras.on_event(event)),
            **dict.fromkeys(
                SERVICE_EVENTS, lambda host, event, _: to.services.on_event(host, event)
            ),
        }

    def take(self, now_s: float) -> None:
        """Hand over all that has come; to be called often, see AgentService.receive."""
        for host, event in self._agents.receive():
            if event is None:
                self._on_gone(host)
            else:
                kind = event.WhichOneof("event") or ""
                self._takers.get(kind, self._to.hosts.on_event)(host, event, now_s)

    def _on_gone(self, host: str) -> None:
        """Take in that an agent is gone."""
        self._to.preemption.on_gone(host)
        self._to.hosts.on_gone(host, self._agents.why_gone(host))
        self._to.syncing.on_gone(host)
        self._to.recording.on_gone(host)
        self._to.services.on_gone(host)
