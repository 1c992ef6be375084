"""The parts that take care of lost ranks, around hosts that do what a test says."""

from pathlib import Path

from jupyter_dist.coordinator.agents.arrivals import Arrivals
from jupyter_dist.coordinator.agents.deployment import Deployment
from jupyter_dist.coordinator.cells.scheduler import CellScheduler
from jupyter_dist.coordinator.cells.setup_cells import SetupCells
from jupyter_dist.coordinator.recovery.healing import HealingParts
from jupyter_dist.coordinator.recovery.host_events import HostEvents, Reach
from jupyter_dist.coordinator.recovery.losses import Losses
from jupyter_dist.coordinator.recovery.recovery import Recovery
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.model.spec.on_loss import OnLoss
from jupyter_dist.protocol.credentials import Credentials, KeyPair


class FakeHosts:
    """Hosts that come back when `let_back` is called; remembers what was started on them."""

    def __init__(self, roster) -> None:
        self._roster = roster
        self.restarted: list[str] = []
        self.started: list[tuple[int, ...]] = []
        self.failed: dict[str, str] = {}
        self.waited: dict[str, float] = {}

    def restart(self, host: HostSpec) -> None:
        self.restarted.append(host.name)

    def why_not_back(self, host: str) -> str:
        return self.failed.get(host, "")

    def waited_s(self, host: str) -> float:
        return self.waited.get(host, 0.0)

    def take_problem(self) -> str:
        return ""

    def start_engines(self, ranks) -> None:
        self.started.append(tuple(ranks))

    def let_back(self, host: str) -> None:
        self._roster.hosts[host].is_lost = False


class FakeBeats:
    """Hearts of engines, all of which answer at once but those of `silent` ones."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.silent: set[bytes] = set()

    def ask(self, identities) -> None:
        self.asked += identities

    def answered_s(self, identity: bytes) -> float:
        return 0.0 if identity in self.silent else float("inf")


def make_hosts(cluster, on_loss, job=None) -> None:
    """Give a cluster of the unit tests its fence, losses and hosts, whose agents nobody starts."""
    roster, rendezvous = cluster.roster, cluster.rendezvous
    cluster.scheduler = CellScheduler(roster, rendezvous, cluster.sender)
    cluster.broken_hosts = set()
    cluster.losses = Losses(
        roster,
        rendezvous,
        cluster.scheduler,
        on_loss,
        lambda host: host not in cluster.broken_hosts,
    )
    deployment = Deployment(cluster.spec, Credentials("server", KeyPair("public", "secret")))
    reach = Reach(deployment, Arrivals({}, Path(), job), cluster.sender)
    cluster.hosts = HostEvents(roster, rendezvous, cluster.scheduler, cluster.losses, reach)


def make_recovery(cluster, on_loss=OnLoss.ASK, may_share_devices=False) -> None:
    """Give a cluster of the unit tests its fence, losses, hosts and recovery."""
    cluster.scheduler = CellScheduler(cluster.roster, cluster.rendezvous, cluster.sender)
    cluster.losses = Losses(
        cluster.roster, cluster.rendezvous, cluster.scheduler, lambda _: None, lambda _: True
    )
    cluster.hosts = FakeHosts(cluster.roster)
    cluster.setup_cells = SetupCells()
    cluster.beats = FakeBeats()
    parts = HealingParts(
        cluster.parts,
        cluster.setup_cells,
        cluster.hosts,
        cluster.hosts,
        may_share_devices,
        timeout_s=60.0,
        beats=cluster.beats,
    )
    cluster.recovery = Recovery(cluster.scheduler, cluster.losses, parts, on_loss)
