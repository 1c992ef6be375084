"""What an agent and its zygote say to each other, a line of JSON each, and where ranks write."""

import msgspec

from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.model.ranks.held_time import COLLECTIVE_TIMEOUT_S
from jupyter_dist.protocol.credentials import Credentials


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one engine needs; agent -> zygote as JSON, never on a command line."""

    engine: str
    """Its name: no other engine of the cluster ever has it, whatever rank it gets."""
    info: RankInfo
    generation: int
    cluster: str
    engines_address: str
    beats_address: str
    credentials: Credentials
    run_dir: str
    """Private directory of this host: what ranks say is kept here."""
    memory_dir: str
    """Private directory in memory: records of collectives and the sources of cells."""
    bind_host: str = "127.0.0.1"
    """Address on which peers reach this engine's communicator."""
    communicator: str = "ring"
    collective_timeout_s: float = COLLECTIVE_TIMEOUT_S
    lost_after_s: float = 10.0
    """After a silence of so long it is given up by its coordinator."""
    coordinator_pid: int = 0
    """Of a coordinator on this machine, by which one sees whether it lives; 0: it is on another."""
    jax: str = "auto"
    """When ranks form JAX on their own: at the start, with the first cell that needs it, never."""
    jaxlib: str = ""
    """The version that ranks would import; empty: there is none. To look for it takes a while."""
    save_on_preempt: str = ""
    """Where variables that are marked are saved before a host is taken away; empty: nowhere."""
    relay: str = ""
    """What the relay of this host proves itself with; empty: it speaks through none."""
    memory_proof: str = ""
    """Name of a file in the coordinator's memory, as its ticket has it."""
    env: dict[str, str] = {}
    cwd: str = "."


class ZygoteRequest(msgspec.Struct, frozen=True):
    """One line to the zygote: the engines to start."""

    births: tuple[EngineConfig, ...]


class ZygoteEvent(msgspec.Struct, frozen=True):
    """One line from the zygote: `ready`, `started` or `exited`."""

    kind: str
    engine: str = ""
    pid: int = 0
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    peak_bytes: int = 0
    """The most memory that a process which exited ever had."""
    pids: dict[str, int] = {}
    """Of engines that have started, by their names."""


def stream_path(run_dir: str, engine: str, stream: str) -> str:
    """Return the file that holds everything the engine wrote to `stdout` or `stderr`."""
    return f"{run_dir}/rank-{engine}.{stream}"


def home_path(run_dir: str) -> str:
    """Return the Unix socket at which ranks of this host reach a coordinator on its machine."""
    return f"{run_dir}/home"


def relay_path(run_dir: str) -> str:
    """Return the Unix socket at which ranks of this host reach its relay."""
    return f"{run_dir}/relay"


def record_path(memory_dir: str, engine: str) -> str:
    """Return the file with the engine's last collectives, readable while it is stuck or dead."""
    return f"{memory_dir}/rank-{engine}.collectives"


def beats_path(path: str) -> str:
    """Return where who listens at one of these paths asks for heartbeats."""
    return f"{path}-beats"
