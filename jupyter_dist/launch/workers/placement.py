"""What is known of the workers on which agents are to start, and what follows from it. Pure.

What workers are asked to do travels as the source text of `on_worker.py`.
"""

import hashlib
import inspect
import secrets
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from jupyter_dist.errors import StartFailed, UsageError, VersionMismatch
from jupyter_dist.launch.sealing import Readiness
from jupyter_dist.launch.workers import on_worker
from jupyter_dist.model.hosts.rank import format_ranks
from jupyter_dist.text.lists import group_pairs, name_some
from jupyter_dist.text.plurals import fit
from jupyter_dist.text.said_lines import last_lines
from jupyter_dist.version import WIRE, __version__

OLDEST_PYTHON = (3, 11)
_SHOWN_LINES = 20
_SOURCE = inspect.getsource(on_worker)
_MODULE = f"_jupyter_dist_{hashlib.sha256(_SOURCE.encode()).hexdigest()[:16]}"
_CALL = (
    "(lambda modules, Module: modules.get({name!r}) or ("
    "modules.update({{{name!r}: Module({name!r})}}), "
    "exec({source!r}, vars(modules[{name!r}])), modules[{name!r}])[2]"
    ")(__import__('sys').modules, __import__('types').ModuleType).{function}(**{arguments!r})"
)
"""An expression, so that `eval`, which every Python has, can be applied to it."""

Worker = Hashable
"""How a worker is called by those who have it: a number, an address."""


class WorkerKind(NamedTuple):
    """How workers are called in sentences."""

    noun: str = "worker"
    owner: str = ""
    """Whose they are, as `ipyparallel`; empty: those of the caller."""
    step: str = "Let them finish what they do"
    """What to do about those that do not answer."""

    @property
    def of_owner(self) -> str:
        """Return ` of ipyparallel`, or nothing."""
        return f" of {self.owner}" if self.owner else ""

    def name(self, workers: Sequence[Worker]) -> str:
        """Write `engine 3`, or `engines 0-2,5`."""
        numbers = [worker for worker in workers if isinstance(worker, int)]
        names = name_some([str(worker) for worker in workers])
        if len(numbers) == len(workers):
            names = format_ranks(numbers)
        return f"{self.noun}{fit(workers, '', 's')} {names}"


class WorkerLocation(msgspec.Struct, frozen=True):
    """Where a worker runs."""

    hostname: str
    machine: str
    python: tuple[int, int]
    executable: str
    visible: str | None
    """The GPUs that its environment lets it see; None: all."""


class BootstrapReply(msgspec.Struct, frozen=True):
    """What a worker tells of the agent that it was to start."""

    is_good: bool
    line: str = ""
    """What the agent has said of itself."""
    status: int | None = None
    """Its exit status; None: it did not end."""
    said: str = ""
    """Its last words."""


class AgentBootstrap(NamedTuple):
    """One node: what starts there, and the worker that starts it."""

    worker: Any
    site: WorkerLocation
    name: str
    """What the host is called in the cluster."""
    slots: int
    visible: str | None
    token: str


def write_call(function: str, arguments: Mapping[str, object]) -> Callable[[], object]:
    """Return what calls a function of `on_worker.py` where it is not; every pickle can write it."""
    text = _CALL.format(name=_MODULE, source=_SOURCE, function=function, arguments=dict(arguments))
    return partial(eval, text)


def check_pythons(sites: Mapping[Worker, WorkerLocation], kind: WorkerKind) -> None:
    """Raise UsageError where workers run different Pythons, or one that is too old."""
    groups = group_pairs((site.python, worker) for worker, site in sites.items())
    told = "; ".join(
        f"{kind.name(workers)} {fit(workers, 'runs', 'run')} Python {major}.{minor}"
        for (major, minor), workers in sorted(groups.items())
    )
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if min(groups) < OLDEST_PYTHON:
        raise UsageError(
            f"{told}. jupyter-dist needs Python {oldest} or later there: start the {kind.noun}s"
            f"{kind.of_owner} with one that has it installed."
        )
    if len(groups) > 1:
        raise UsageError(
            f"{told}. The ranks of a cluster exchange functions, which needs one Python on all "
            f"hosts: start the {kind.noun}s{kind.of_owner} with the same one."
        )


def by_host(_worker: Worker, site: WorkerLocation) -> Hashable:
    """Take workers for those of one node that tell the same host."""
    return site.hostname, site.machine


NodeOf = Callable[[Any, WorkerLocation], Hashable]
"""Tells on which node a worker is."""


def plan_bootstraps(
    sites: Mapping[Worker, WorkerLocation], slots: int | None, node_of: NodeOf = by_host
) -> tuple[AgentBootstrap, ...]:
    """Choose one worker of each node, the first; no `slots`: as many as it has workers."""
    nodes = group_pairs((node_of(worker, site), worker) for worker, site in sites.items())
    seen: Counter[str] = Counter()
    planned = []
    for workers in nodes.values():
        site = sites[workers[0]]
        seen[site.hostname] += 1
        number = seen[site.hostname]
        planned.append(
            AgentBootstrap(
                worker=workers[0],
                site=site,
                name=site.hostname if number == 1 else f"{site.hostname}-{number}",
                slots=len(workers) if slots is None else slots,
                visible=_join_visible([sites[worker].visible for worker in workers]),
                token=secrets.token_hex(8),
            )
        )
    return tuple(planned)


def _join_visible(each: Sequence[str | None]) -> str | None:
    """Return the GPUs that any of a node's workers may see, in the order of workers; None: all."""
    devices: dict[str, None] = {}
    for visible in each:
        if visible is None:
            return None
        devices.update(dict.fromkeys(device for device in visible.split(",") if device))
    return ",".join(devices)


def read_readiness(bootstrap: AgentBootstrap, answer: BootstrapReply) -> Readiness:
    """Read what an agent says of itself; raises StartFailed where it cannot be invited."""
    try:
        readiness = msgspec.json.decode(answer.line, type=Readiness)
    except msgspec.DecodeError:
        raise StartFailed(
            f"host {bootstrap.name}: what should be an agent said {answer.line[:200]!r}. "
            f"Look at the jupyter_dist that {bootstrap.site.executable} has there."
        ) from None
    if readiness.wire != WIRE:
        raise StartFailed(
            f"host {bootstrap.name} has jupyter-dist {readiness.version}, and this side "
            f"{__version__}: {VersionMismatch(WIRE, readiness.wire)}"
        )
    return readiness


def describe_silence(workers: Sequence[Worker], timeout_s: float, kind: WorkerKind) -> str:
    """Say of workers that have not answered what to do."""
    have, they = fit(workers, ("has", "it is"), ("have", "they are"))
    return (
        f"{kind.name(workers)}{kind.of_owner} {have} not answered within {timeout_s:.3g} s: "
        f"{they} busy, or cannot be reached. {kind.step}; or give more time with timeout_s."
    )


def describe_failures(
    failures: Sequence[tuple[AgentBootstrap, BootstrapReply | BaseException]], kind: WorkerKind
) -> str:
    """Return why nodes have no agent: a sentence for each, and below them what each said last."""
    told = [f"host {each.name}: {_explain(each, why, kind)}" for each, why in failures]
    said = [
        f"--- {each.name} said last ---\n{last_lines(why.said, _SHOWN_LINES)}"
        for each, why in failures
        if isinstance(why, BootstrapReply) and why.said.strip()
    ]
    head = [f"{len(failures)} hosts failed."] if len(failures) > 1 else []
    return "\n".join([*head, *told, *said])


def _explain(
    bootstrap: AgentBootstrap, why: BootstrapReply | BaseException, kind: WorkerKind
) -> str:
    if isinstance(why, BaseException):
        name = kind.name([bootstrap.worker])
        return f"{name}{kind.of_owner} could not start an agent: {why}"
    if "No module named" in why.said and "jupyter_dist" in why.said:
        python = bootstrap.site.executable
        return (
            f"jupyter_dist is not installed in {python} on host {bootstrap.name}; install "
            f"it there: {python} -m pip install jupyter-dist=={__version__}"
        )
    if why.status is None:
        return "its agent has not joined in time. It was ended"
    return f"its agent ended with status {why.status} before it had joined"
