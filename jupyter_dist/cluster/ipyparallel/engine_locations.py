"""What is known of the engines of someone's ipyparallel cluster, and what follows from it. Pure.

What engines are asked to do travels as the source text of `on_their_engine.py`.
"""

import hashlib
import inspect
import secrets
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from jupyter_dist.cluster.ipyparallel import remote_bootstrap as on_their_engine
from jupyter_dist.errors import StartFailed, UsageError, VersionMismatch
from jupyter_dist.launch.sealing import Readiness
from jupyter_dist.launch.ssh.ssh_failures import last_lines
from jupyter_dist.model.hosts.rank import format_ranks
from jupyter_dist.text.lists import group_pairs
from jupyter_dist.text.plurals import fit
from jupyter_dist.version import WIRE, __version__

OLDEST_PYTHON = (3, 11)
_SHOWN_LINES = 20
_SOURCE = inspect.getsource(on_their_engine)
_MODULE = f"_jupyter_dist_{hashlib.sha256(_SOURCE.encode()).hexdigest()[:16]}"
_CALL = (
    "(lambda modules, Module: modules.get({name!r}) or ("
    "modules.update({{{name!r}: Module({name!r})}}), "
    "exec({source!r}, vars(modules[{name!r}])), modules[{name!r}])[2]"
    ")(__import__('sys').modules, __import__('types').ModuleType).{function}(**{arguments!r})"
)
"""An expression, so that `eval`, which every Python has, can be applied to it."""


class EngineLocation(msgspec.Struct, frozen=True):
    """Where an engine of theirs runs."""

    hostname: str
    machine: str
    python: tuple[int, int]
    executable: str
    visible: str | None
    """The GPUs that its environment lets it see; None: all."""


class BootstrapReply(msgspec.Struct, frozen=True):
    """What an engine tells of the agent that it was to start."""

    is_good: bool
    line: str = ""
    """What the agent has said of itself."""
    status: int | None = None
    """Its exit status; None: it did not end."""
    said: str = ""
    """Its last words."""


class AgentBootstrap(NamedTuple):
    """One host of theirs: what starts there, and the engine that starts it."""

    engine: int
    site: EngineLocation
    slots: int
    visible: str | None
    token: str


def write_call(function: str, arguments: Mapping[str, object]) -> str:
    """Write an expression that calls a function of `on_their_engine.py` where it is not."""
    return _CALL.format(name=_MODULE, source=_SOURCE, function=function, arguments=dict(arguments))


def check_pythons(sites: Mapping[int, EngineLocation]) -> None:
    """Raise UsageError where engines run different Pythons, or one that is too old."""
    groups = group_pairs((site.python, engine) for engine, site in sites.items())
    told = "; ".join(
        f"{name_engines(engines)} {fit(engines, 'runs', 'run')} Python {major}.{minor}"
        for (major, minor), engines in sorted(groups.items())
    )
    oldest = ".".join(map(str, OLDEST_PYTHON))
    if min(groups) < OLDEST_PYTHON:
        raise UsageError(
            f"{told}. jupyter-dist needs Python {oldest} or later there: start the ipyparallel "
            "engines with one that has it installed."
        )
    if len(groups) > 1:
        raise UsageError(
            f"{told}. The ranks of a cluster exchange functions, which needs one Python on all "
            "hosts: start the ipyparallel engines with the same one."
        )


def plan_footholds(sites: Mapping[int, EngineLocation], slots: int) -> tuple[AgentBootstrap, ...]:
    """Choose one engine of each host, the first; `slots` 0: as many as the host has engines."""
    hosts = group_pairs(
        ((site.hostname, site.machine), engine) for engine, site in sorted(sites.items())
    )
    return tuple(
        AgentBootstrap(
            engine=engines[0],
            site=sites[engines[0]],
            slots=slots or len(engines),
            visible=_join_visible([sites[engine].visible for engine in engines]),
            token=secrets.token_hex(8),
        )
        for engines in hosts.values()
    )


def _join_visible(each: Sequence[str | None]) -> str | None:
    """Return the GPUs that any of a host's engines may see, in the order of engines; None: all."""
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
            f"host {bootstrap.site.hostname}: what should be an agent said {answer.line[:200]!r}. "
            f"Look at the jupyter_dist that {bootstrap.site.executable} has there."
        ) from None
    if readiness.wire != WIRE:
        raise StartFailed(
            f"host {bootstrap.site.hostname} has jupyter-dist {readiness.version}, and this side "
            f"{__version__}: {VersionMismatch(WIRE, readiness.wire)}"
        )
    return readiness


def describe_silence(engines: Sequence[int], timeout_s: float) -> str:
    """Say of engines that have not answered what to do."""
    have, they = fit(engines, ("has", "it is"), ("have", "they are"))
    return (
        f"{name_engines(engines)} of ipyparallel {have} not answered within {timeout_s:g} s: "
        f"{they} busy, or cannot be reached. client.queue_status() tells what they do, "
        "client.send_signal('SIGINT') interrupts it; or give more time with timeout_s."
    )


def describe_failures(
    failures: Sequence[tuple[AgentBootstrap, BootstrapReply | BaseException]],
) -> str:
    """Return why hosts have no agent: a sentence for each, and below them what each said last."""
    told = [f"host {each.site.hostname}: {_explain(each, why)}" for each, why in failures]
    said = [
        f"--- {each.site.hostname} said last ---\n{last_lines(why.said, _SHOWN_LINES)}"
        for each, why in failures
        if isinstance(why, BootstrapReply) and why.said.strip()
    ]
    head = [f"{len(failures)} hosts failed."] if len(failures) > 1 else []
    return "\n".join([*head, *told, *said])


def _explain(bootstrap: AgentBootstrap, why: BootstrapReply | BaseException) -> str:
    if isinstance(why, BaseException):
        return f"engine {bootstrap.engine} of ipyparallel could not start an agent: {why}"
    if "No module named" in why.said and "jupyter_dist" in why.said:
        python = bootstrap.site.executable
        return (
            f"jupyter_dist is not installed in {python} on host {bootstrap.site.hostname}; install "
            f"it there: {python} -m pip install jupyter-dist=={__version__}"
        )
    if why.status is None:
        return "its agent has not joined in time. It was ended"
    return f"its agent ended with status {why.status} before it had joined"


def name_engines(engines: Sequence[int]) -> str:
    """Write `engine 3`, or `engines 0-2,5`."""
    return f"engine{fit(engines, '', 's')} {format_ranks(engines)}"
