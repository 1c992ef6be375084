"""What every launcher has in common: a process on a host that turns into an agent."""

from typing import Protocol

import msgspec

from jupyter_dist.model.spec.cluster_spec import HostSpec

SERVER_NAME = "jupyter-dist-coordinator"
"""Name in the coordinator's certificate; addresses change, this does not."""
_LEAST_S = 1.0
_SHARE, _LOCAL_SHARE = 0.35, 0.2
"""Of the time after which an agent is given up, what an answer of the other end may take."""
_MANY_HOSTS = 64
_LATER_SHARE = 0.05
"""Of the same time: so much later than its agents the coordinator of many hosts pings."""
_MOST_SILENT_SHARE = 0.65
"""Of the same time, what may pass at most until a break is noticed: the rest is to dial again."""
STREAM_OPTIONS = (
    # A message over the limit would break the stream, and cost the host's ranks.
    ("grpc.max_receive_message_length", 1 << 30),
    ("grpc.http2.max_pings_without_data", 0),
    # gRPC would ask the other end after each message how much is on its way, to choose this: two
    # messages more for each of an idle agent, and so many times that its threads look for work.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 4 << 20),
)
"""Of both ends of an agent's stream; all that may be large goes in pieces."""
HOME_UNREACHABLE = 94
"""Exit status of an agent that found no way to the coordinator; its last lines say why."""
GREETING = "jupyter-dist agent "
"""An agent that was started over ssh says this and a Greeting in JSON before anything else."""


def _silence_before_break_s(lost_after_s: float) -> float:
    """Return the silence after which a connection of an agent is given up, in seconds.

    Not the agent: it dials again, and has the other half of the time for that. TCP would try
    again in ever longer steps, and so for as long after a break as that has lasted.
    """
    return max(2 * _LEAST_S, lost_after_s / 2)


def keepalive_ms(lost_after_s: float, hosts: int, *, is_local: bool, is_agent: bool = False) -> int:
    """Return after which silence an end of an agent's stream makes sure of the other one.

    Of many hosts after a longer one: each time costs the coordinator about 0.1 ms of CPU. There the
    agent pings first, which proves to the coordinator that it lives: one ping serves both ends.
    """
    timeout_ms = keepalive_timeout_ms(lost_after_s, is_local=is_local)
    usual_ms = round(1000 * _silence_before_break_s(lost_after_s)) - timeout_ms
    most_ms = max(usual_ms, round(1000 * _MOST_SILENT_SHARE * lost_after_s) - timeout_ms)
    asked_ms = min(most_ms, max(usual_ms, usual_ms * hosts // _MANY_HOSTS))
    is_later = hosts > _MANY_HOSTS and not is_agent
    return asked_ms + round(1000 * _LATER_SHARE * lost_after_s) * is_later


def keepalive_timeout_ms(lost_after_s: float, *, is_local: bool) -> int:
    """Return for how long an answer to that is waited for; on one machine it comes soon."""
    share = _LOCAL_SHARE if is_local else _SHARE
    most_s = _silence_before_break_s(lost_after_s) - _LEAST_S
    return round(1000 * max(_LEAST_S, min(most_s, share * lost_after_s)))


class Ports(msgspec.Struct, frozen=True):
    """The coordinator's three ports, as an agent reaches them."""

    agents: int
    """gRPC: the agents' own stream."""
    engines: int
    """ZeroMQ: the control channel of its engines."""
    beats: int
    """ZeroMQ: their heartbeats."""


class JoinTicket(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent needs to dial home.

    It travels on the agent's stdin, or in a join file with mode 0600; never on a command line.
    What its engines need comes over the connection, once both ends have proven who they are.
    """

    wire: str
    """Version of everything that is said; another one is refused."""
    cluster: str
    host: str
    """Name of the host in its cluster; empty in a join file: the agent brings its own."""
    homes: tuple[str, ...]
    """Every address the coordinator may have for this host, the likeliest first."""
    ports: Ports
    dial_timeout_s: float
    ca_certificate: bytes
    certificate: bytes
    private_key: bytes
    lost_after_s: float = 10.0
    """After a silence of so long hosts and ranks are given up."""
    sample_interval_s: float = 1.0
    """How often it observes its host."""
    hosts: int = 1
    """Of the cluster: where there are many each tells less often what it observes."""
    good_until_s: float = 0.0
    """When a join file stops being good, in seconds since 1970; 0 for others."""
    machine: str = ""
    """Where the coordinator runs; an agent there sees by its process whether it lives."""
    coordinator_pid: int = 0
    memory_proof: str = ""
    """Name of a file in the coordinator's memory: an engine that can open it is on its machine."""

    def pid_on(self, machine: str) -> int:
        """Return the coordinator's process if it is one of this machine, and 0 if it is not."""
        return self.coordinator_pid if self.machine == machine else 0


class AgentHello(msgspec.Struct, frozen=True):
    """What an agent is, before anything is entrusted to it."""

    wire: str
    version: str
    python: str


class Failure(msgspec.Struct, frozen=True):
    """Why there is no agent on a host, or why a command there has failed."""

    reason: str
    """One sentence fragment without its full stop."""
    next_step: str = ""
    """A whole sentence, or a few."""
    last_lines: str = ""
    """What ssh, or the agent, said last."""

    def __str__(self) -> str:
        return f"{self.reason}. {self.next_step}".rstrip(" .") + "."


class LaunchProgress(msgspec.Struct, frozen=True):
    """How far an agent is that has not joined yet."""

    stage: str
    """What it is doing, as `ssh connects`."""
    is_connecting: bool = False
    """It is not running yet: ssh is on its way, or busy with what goes before."""
    problem: str = ""
    """Why it will not come, or empty."""
    is_queued: bool = False
    """It is not running yet: its job waits in a scheduler's queue."""


class AgentProcess(Protocol):
    """An agent that is being started; shaped like Popen."""

    @property
    def stage(self) -> str:
        """What it is doing before it has joined, as `ssh connects`."""

    @property
    def is_running(self) -> bool:
        """The agent itself has begun, as far as that can be seen from here."""

    def invite(self, ticket: JoinTicket) -> None:
        """Tell it where home is, as soon as it can be told."""

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""

    def has_ended(self) -> bool:
        """Return whether the agent itself is known to have ended, not only the way to it."""

    def waited_s(self) -> float:
        """Return for how long it has waited for a core, in seconds; 0.0 if that cannot be seen."""

    def explain(self) -> Failure:
        """Return why it ended, or what it was doing last."""

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end and give the exit status, or None when it still runs."""

    def terminate(self) -> None:
        """Ask it to clean up and end."""

    def kill(self) -> None:
        """End it at once."""


class Launcher(Protocol):
    """A way to get an agent onto a host."""

    def start(self, host: HostSpec) -> AgentProcess:
        """Start an agent on this host; raises OSError when that cannot even be tried."""
