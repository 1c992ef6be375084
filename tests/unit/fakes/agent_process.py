"""Agents that are started nowhere."""

from jupyter_dist.launch.launcher import Failure, JoinTicket
from jupyter_dist.model.spec.cluster_spec import HostSpec


class FakeAgent:
    """Does what its test says; remembers what it was told."""

    def __init__(self, host: HostSpec) -> None:
        self.host = host
        self.stage = "ssh connects"
        self.is_running = False
        self.status: int | None = None
        """What `poll` gives; None: it runs."""
        self.failure = Failure(f"{host.name} broke")
        self.is_unresponsive = False
        """It does not end when it is asked to."""
        self.invitations: list[JoinTicket] = []
        self.told: list[str] = []

    def invite(self, ticket: JoinTicket) -> None:
        self.invitations.append(ticket)

    def poll(self) -> int | None:
        return self.status

    def has_ended(self) -> bool:
        return self.status is not None

    def explain(self) -> Failure:
        return self.failure

    def wait(self, timeout_s: float) -> int | None:
        assert timeout_s >= 0
        return self.status

    def terminate(self) -> None:
        self.told.append("terminate")
        if not self.is_unresponsive:
            self.status = 0

    def kill(self) -> None:
        self.told.append("kill")
        self.status = -9


class FakeLauncher:
    """Keeps every agent by its host's name."""

    def __init__(self) -> None:
        self.agents: dict[str, FakeAgent] = {}

    def start(self, host: HostSpec) -> FakeAgent:
        self.agents[host.name] = FakeAgent(host)
        return self.agents[host.name]
