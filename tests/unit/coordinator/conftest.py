from dataclasses import dataclass, field

import pytest
from fakes.outbox import RecordingSender

from jupyter_dist.cluster.spec.host_list import parse_hosts
from jupyter_dist.coordinator.cells.cell_run import CellParts
from jupyter_dist.coordinator.cells.output_log import OutputLog
from jupyter_dist.coordinator.debugging.held_ranks import HeldRanks
from jupyter_dist.coordinator.observation.nccl_diagnostics import RasReading
from jupyter_dist.coordinator.observation.rank_queries import RankQueries
from jupyter_dist.coordinator.rendezvous.rendezvous import Rendezvous
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.model.spec.cluster_spec import ClusterSpec
from jupyter_dist.protocol.messages import Hello, Ready


@dataclass
class Cluster:
    """The coordinator's parts, without its sockets and its clock."""

    spec: ClusterSpec
    sender: RecordingSender = field(default_factory=RecordingSender)

    def __post_init__(self):
        self.roster = Roster(self.spec)
        self.rendezvous = Rendezvous(self.roster, self.sender)
        self.rendezvous.communicator = "ring"
        self.log = OutputLog()
        self.questions = RankQueries(self.roster, self.sender)
        self.ras = RasReading(self.sender)
        self.parts = CellParts(
            self.roster,
            self.rendezvous,
            self.sender,
            self.questions,
            self.log,
            self.ras,
            HeldRanks(self.roster, self.sender),
        )

    def join(self, *ranks):
        """Let these ranks (none: all) say Hello and Ready for the present generation."""
        ranks = ranks or range(self.roster.world_size)
        generation = self.rendezvous.generation
        for rank in ranks:
            self.rendezvous.on_hello(Hello(rank, generation, 100 + rank, f"peer-{rank}"))
        for rank in ranks:
            self.rendezvous.on_ready(Ready(rank, generation))

    def lose(self, rank, reason="its process exited with code 3"):
        self.roster.lose(rank, reason)
        self.rendezvous.on_lost(rank)


@pytest.fixture
def starting():
    """Four ranks on two hosts, none of which has joined."""
    spec = ClusterSpec(name="demo", hosts=parse_hosts("a:2,b:2"))
    return Cluster(spec)


@pytest.fixture
def cluster(starting):
    """Four idle ranks on two hosts."""
    starting.join()
    starting.sender.forget()
    return starting
