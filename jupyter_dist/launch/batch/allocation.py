"""The nodes that a batch system, or mpiexec, has given to the process we are in."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.batch.states.slurm import expand_nodes, read_time_s
from jupyter_dist.model.spec.batch import BATCH_TITLES
from jupyter_dist.text.plurals import count_of

_MPI_SIZES = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_SIZE", "MPI_LOCALNRANKS"),
)


class Allocation(msgspec.Struct, frozen=True):
    """What we are in."""

    system: str
    """One of BATCH_SYSTEMS."""
    job_id: str
    """Its number; empty where mpiexec alone has started us."""
    nodes: int
    slots_per_node: int = 0
    """Processes that were asked for on each node; 0: nobody has said that."""
    hosts: tuple[str, ...] = ()
    """Names of the nodes, where they are known."""
    ends_at_s: float = 0.0
    """When its time is over, in seconds since 1970; 0: never, or not known."""

    @property
    def label(self) -> str:
        """What it is called in sentences, as `Slurm job 12`."""
        title = BATCH_TITLES[self.system]
        return f"{title} job {self.job_id}" if self.job_id else title


def _read(path: str) -> str:
    return Path(path).read_text(errors="replace")


def find_allocation(
    environ: Mapping[str, str], read: Callable[[str], str] = _read
) -> Allocation | None:
    """Find what we are in from the environment, and the files that it names; None: nothing."""
    for find in (_find_slurm, _find_pbs, _find_lsf, _find_sge, _find_mpi):
        try:
            found = find(environ, read)
        except OSError:  # the file with the nodes is for another machine
            continue
        if found is not None:
            return found
    return None


def check_room(allocation: Allocation, nodes: int, slots: int = 0) -> None:
    """Raise UsageError when the allocation has fewer nodes, or slots on each, than are asked for.

    One slot on each node is what it tells that was asked for nodes: then there may be more.
    """
    has_slots = allocation.slots_per_node
    if slots > has_slots > 1:
        raise UsageError(
            f"{slots} slots on each node are asked for, but {allocation.label} around this process "
            f"has {has_slots}. Take --slots {has_slots}, or ask the scheduler for a larger "
            "allocation."
        )
    if nodes > allocation.nodes:
        has = count_of(allocation.nodes, "node")
        raise UsageError(
            f"{nodes} nodes are asked for, but {allocation.label} around this process has {has}. "
            f"Take --nodes {allocation.nodes}, or ask the scheduler for a larger allocation."
        )


def _find_slurm(environ: Mapping[str, str], _read: Callable[[str], str]) -> Allocation | None:
    job_id = environ.get("SLURM_JOB_ID", "")
    hosts = expand_nodes(environ.get("SLURM_JOB_NODELIST", ""))
    count = _number(environ.get("SLURM_JOB_NUM_NODES")) or len(hosts)
    if not job_id or not count:
        return None
    slots = _number(environ.get("SLURM_NTASKS_PER_NODE"))
    ends_at_s = read_time_s(environ.get("SLURM_JOB_END_TIME", ""))
    return Allocation("slurm", job_id, count, slots, hosts, ends_at_s)


def _find_pbs(environ: Mapping[str, str], read: Callable[[str], str]) -> Allocation | None:
    job_id, path = environ.get("PBS_JOBID", ""), environ.get("PBS_NODEFILE", "")
    if not job_id or not path:
        return None
    return _by_hosts("pbs", job_id.partition(".")[0], Counter(read(path).split()))


def _find_lsf(environ: Mapping[str, str], _read: Callable[[str], str]) -> Allocation | None:
    job_id = environ.get("LSB_JOBID", "")
    counts = Counter(environ.get("LSB_HOSTS", "").split())
    words = environ.get("LSB_MCPU_HOSTS", "").split()
    if words:
        counts = Counter(
            {host: _number(n) for host, n in zip(words[::2], words[1::2], strict=False)}
        )
    return _by_hosts("lsf", job_id, counts) if job_id else None


def _find_sge(environ: Mapping[str, str], read: Callable[[str], str]) -> Allocation | None:
    job_id, path = environ.get("JOB_ID", ""), environ.get("PE_HOSTFILE", "")
    if not job_id or not path:
        return None
    counts: Counter[str] = Counter()
    for line in read(path).splitlines():
        host, _, rest = line.strip().partition(" ")
        if host:
            counts[host] += _number((rest.split() or [""])[0])
    return _by_hosts("sge", job_id, counts)


def _find_mpi(environ: Mapping[str, str], _read: Callable[[str], str]) -> Allocation | None:
    for all_name, local_name in _MPI_SIZES:
        size, local = _number(environ.get(all_name)), _number(environ.get(local_name))
        if size and local:
            return Allocation("mpi", "", -(-size // local), local)
    return None


def _by_hosts(system: str, job_id: str, counts: Counter[str]) -> Allocation | None:
    if not counts:
        return None
    least = min(counts.values())
    slots = least if least > 1 else 0  # one for each node is what they say who mean the node
    return Allocation(system, job_id, len(counts), slots, tuple(counts))


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
