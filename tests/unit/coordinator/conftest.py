from dataclasses import dataclass, field

import pytest
from fakes.outbox import RecordingOutbox

from jupyter_dist.coordinator.cells import CellParts
from jupyter_dist.coordinator.nccl_witness import RasReading
from jupyter_dist.coordinator.output_log import OutputLog
from jupyter_dist.coordinator.questions import Questions
from jupyter_dist.coordinator.rendezvous import Rendezvous
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.model.host_list import parse_hosts
from jupyter_dist.model.spec import ClusterSpec
from jupyter_dist.protocol.messages import Hello, Ready


@dataclass
class Cluster:
    """The coordinator's parts, without its sockets and its clock."""

    spec: ClusterSpec
    outbox: RecordingOutbox = field(default_factory=RecordingOutbox)

    def __post_init__(self):
        self.roster = Roster(self.spec)
        self.rendezvous = Rendezvous(self.roster, self.outbox)
        self.rendezvous.communicator = "ring"
        self.log = OutputLog()
        self.questions = Questions(self.roster, self.outbox, self.outbox.to_agent)
        self.ras = RasReading(self.outbox.to_agent)
        self.parts = CellParts(
            self.roster, self.rendezvous, self.outbox, self.questions, self.log, self.ras
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
    starting.outbox.forget()
    return starting
