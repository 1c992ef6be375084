"""How a cluster is, asked in passing: no question waits for its answer, none keeps it alive."""

import os
from time import monotonic

from jupyter_dist.cluster.connection.connection import Connection
from jupyter_dist.cluster.connection.roles import name_us
from jupyter_dist.control.dealer import AnswersLost
from jupyter_dist.errors import ClusterGone, ClusterUnreachable, WireError
from jupyter_dist.launch.files.connection_file import ConnectionInfo
from jupyter_dist.launch.processes.private_dir import this_machine
from jupyter_dist.launch.processes.process_life import process_lives
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.protocol.identity import line_identity, new_client
from jupyter_dist.protocol.messages import (
    ClaimRole,
    KernelRole,
    Refused,
    RoleGranted,
    TopologyChanged,
    WatchTopology,
)


class StatusProbe:
    """Looks at one cluster now and then; held by one thread."""

    def __init__(self, info: ConnectionInfo) -> None:
        self.info = info
        self.topology = Topology(cluster=info.name, state="starting")
        """As it was when it last answered."""
        self.owner = ""
        """The owner of the cluster then; empty: it had none."""
        self.kernels: tuple[KernelRole, ...] = ()
        """Notebooks that owned or observed it then."""
        self.problem = ""
        """Why it cannot be looked at, as versions that differ; empty: it can."""
        self.has_answered = False
        """It did, at least once."""
        self._connection = Connection(info, line_identity(new_client(is_passing=True), 1))
        self._asked_s: float | None = None
        """When the question was put whose answer is due; None: no answer is due."""

    @property
    def is_waiting(self) -> bool:
        """A question has not been answered."""
        return self._asked_s is not None

    @property
    def is_gone(self) -> bool:
        """Its coordinator has ended."""
        return not process_lives(self.info.coordinator_pid)

    @property
    def silence_s(self) -> float:
        """For how long it has not answered."""
        return 0.0 if self._asked_s is None else monotonic() - self._asked_s

    def ask(self) -> None:
        """Ask how it is, unless it owes an answer."""
        if self._asked_s is not None:
            return
        self._asked_s = monotonic()
        number = self._connection.new_request_id()
        machine = this_machine() if self._connection.is_far else ""
        claim = ClaimRole(number, os.getpid(), name_us(), "visit", machine=machine)
        self._connection.send(claim)
        self._connection.send(WatchTopology(number, 0.0))

    def listen(self, timeout_s: float) -> None:
        """Take in what has come, waiting at most so long."""
        try:
            for message, _ in self._connection.receive(timeout_s):
                match message:
                    case RoleGranted():
                        self.owner, self.kernels = message.owner, message.kernels
                    case TopologyChanged():
                        self.topology, self._asked_s = message.topology, None
                        self.has_answered = True
                    case Refused():
                        self.problem, self._asked_s = message.reason, None
        except (ClusterGone, ClusterUnreachable):
            return  # is_gone tells, or silence_s
        except AnswersLost:
            self._asked_s = None
        except WireError as problem:
            self.problem, self._asked_s = str(problem), None

    def close(self) -> None:
        """Close the line."""
        self._connection.close()
