"""What agents say, on its way to the parts of the coordinator that it concerns."""

from collections.abc import Callable
from dataclasses import dataclass

from jupyter_dist.coordinator.agents.agent_service import AgentService
from jupyter_dist.coordinator.clients.code_sync import CodeSync
from jupyter_dist.coordinator.observation.call_records import CallRecords
from jupyter_dist.coordinator.observation.nccl_diagnostics import RasReading
from jupyter_dist.coordinator.observation.rank_queries import RankQueries
from jupyter_dist.coordinator.preemption.preemption import Preemption
from jupyter_dist.coordinator.recovery.host_events import HostEvents
from jupyter_dist.coordinator.rendezvous.framework_services import FrameworkServices
from jupyter_dist.protocol import host_agent_pb2 as pb


@dataclass
class AgentEvents:
    """Hands each event over, and the end of each agent."""

    agents: AgentService
    hosts: HostEvents
    code_sync: CodeSync
    recording: CallRecords
    questions: RankQueries
    ras: RasReading
    services: FrameworkServices
    preemption: Preemption

    def __post_init__(self) -> None:
        self._takers: dict[str, Callable[[str, pb.AgentEvent, float], None]] = {
            "code_lacks": self.code_sync.on_event,
            "code_taken": self.code_sync.on_event,
            "code_committed": self.code_sync.on_event,
            "records": self.recording.on_event,
            "stacks_dumped": self.questions.on_event,
            "notice": self.preemption.on_event,
            "ras_read": self.ras.on_event,
            "service_started": self.services.on_event,
        }

    def take(self, now_s: float) -> None:
        """Hand over all that has come."""
        for host, event in self.agents.receive():
            if event is None:
                self._on_gone(host)
            else:
                kind = event.WhichOneof("event") or ""
                self._takers.get(kind, self.hosts.on_event)(host, event, now_s)

    def _on_gone(self, host: str) -> None:
        """Take in that an agent is gone."""
        self.preemption.on_gone(host)
        self.hosts.on_gone(host, self.agents.why_gone(host))
        self.code_sync.on_gone(host)
        self.recording.on_gone(host)
        self.services.on_gone(host)
