"""The keys of a specification file: what each accepts, and how its value is read."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NamedTuple

import msgspec

from jupyter_dist.cluster.spec.host_list import parse_coordinator, write_coordinator
from jupyter_dist.model.spec.batch import BATCH_SYSTEMS
from jupyter_dist.model.spec.cluster_spec import (
    COMMUNICATOR_KINDS,
    JAX_MODES,
    LAUNCHERS,
    START_METHODS,
    HostSpec,
    parse_duration_s,
    parse_ssh,
)
from jupyter_dist.model.spec.devices import parse_devices_per_engine, write_devices_per_engine
from jupyter_dist.model.spec.on_loss import OnLoss


def _as_it_is(value: Any) -> Any:
    return value


class Kind(NamedTuple):
    """What a key accepts, in words, and how its value is read and written.

    To read what is not accepted raises ValueError or OverflowError.
    """

    accepted: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = _as_it_is


_Text = Annotated[str, msgspec.Meta(pattern=r"\A[^\0]*\Z")]
_Number = Annotated[int, msgspec.Meta(ge=0)]


def _read_devices_per_engine(value: object) -> int:
    return parse_devices_per_engine(msgspec.convert(value, str | _Number))


def _read_duration_s(value: object) -> float:
    given = msgspec.convert(value, str | float)
    return parse_duration_s(given) if isinstance(given, str) else given


def write_duration(seconds: float) -> str | float:
    """Write seconds as `15m` where that is exact."""
    for unit, length_s in (("h", 3600), ("m", 60), ("s", 1)):
        if 0 < seconds < 1e9 and seconds % length_s == 0:
            return f"{seconds / length_s:.0f}{unit}"
    return seconds


def _read_commands(value: object) -> tuple[str, ...]:
    """Read a list of commands, or a text with one on a line."""
    commands = value.splitlines() if isinstance(value, str) else value
    return tuple(each for each in msgspec.convert(commands, tuple[_Text, ...]) if each.strip())


def _read_words(value: object) -> tuple[str, ...]:
    return parse_ssh(msgspec.convert(value, str | list[str]))


def _read_coordinator(value: object) -> HostSpec | None:
    return parse_coordinator(msgspec.convert(value, _Text))


def _one_of(*choices: str) -> Kind:
    def read(value: object) -> str:
        if value not in choices:
            raise ValueError
        return str(value)

    return Kind(" or ".join(f'"{choice}"' for choice in choices), read)


def _of(kind: Any, accepted: str, write: Callable[[Any], Any] = _as_it_is) -> Kind:
    """Return what accepts the values of a type as they stand."""
    return Kind(accepted, partial(msgspec.convert, type=kind), write)


def _text(example: str) -> Kind:
    return _of(_Text, f'a text, for example "{example}"')


def _number(example: str) -> Kind:
    return _of(_Number, f"a whole number, {example}")


_FLAG = _of(bool, "true or false")
DURATION = Kind(
    'a time, for example "2m", or a number of seconds', _read_duration_s, write_duration
)
_DEVICES_PER_ENGINE = Kind(
    'a whole number, 1 or more, or "all"', _read_devices_per_engine, write_devices_per_engine
)
_VARIABLES = _of(dict[str, _Text], 'a table of texts, for example { OMP_NUM_THREADS = "1" }')
_NETWORK = _text("10.1.0.0/16")

DEFAULTS = {
    "slots": _number("0 for as many as the host has GPUs"),
    "user": _text("alice"),
    "port": _number("for example 22"),
    "ssh": Kind('a command or a list of its words, for example "ssh -F FILE"', _read_words),
    "python": _text("/opt/env/bin/python"),
    "setup": Kind('a command or a list of them, for example "module load cuda"', _read_commands),
    "cwd": _text("/home/alice/project"),
    "devices": _of(tuple[_Number, ...], "a list of whole numbers, for example [0, 1]"),
    "interface": _NETWORK,
    "tunnel": _FLAG,
    "env": _VARIABLES,
}
HOST = {"name": _text("node[01-04]"), "launcher": _one_of(*LAUNCHERS), **DEFAULTS}
CLUSTER = {
    "name": _text("weather"),
    "coordinator": Kind(
        '"here", "job" or a machine, for example "alice@login"',
        _read_coordinator,
        write_coordinator,
    ),
    "communicator": _one_of(*COMMUNICATOR_KINDS),
    "oversubscribe": _FLAG,
    "devices_per_engine": _DEVICES_PER_ENGINE,
    "cpu_devices": _number("0 for what JAX has on its own"),
    "jax": _one_of(*JAX_MODES),
    "on_loss": _one_of(*OnLoss),
    "save_on_preempt": _text("checkpoints"),
    "preempt_command": _text("test -e /run/leaving"),
    "timeout": DURATION,
    "keep": DURATION,
    "collective_timeout": DURATION,
    "sample_interval": DURATION,
    "cwd": _text("project"),
    "start_method": _one_of(*START_METHODS),
    "interface": _NETWORK,
    "ports": _text("47000-47009"),
    "install": _FLAG,
    "wheelhouse": _text("wheels"),
    "one_machine": _FLAG,
    "env": _VARIABLES,
}
HEALTH = dict.fromkeys(("interval", "suspect_after", "lost_after"), DURATION)
BATCH = {
    "system": _one_of(*BATCH_SYSTEMS),
    "nodes": _number("1 or more"),
    "slots": _number("0 for as many as the node has GPUs"),
    "queue": _text("gpu"),
    "account": _text("physics"),
    "time_limit": DURATION,
    "job_name": _text("weather"),
    "arguments": _of(tuple[_Text, ...], 'a list of texts, for example ["--constraint=gpu"]', list),
    "template": _text("job.sh"),
    "directory": _text("/scratch/alice"),
    "scheduler": _text("tcp://10.0.0.1:8786"),
}
"""Of the job whose nodes are the hosts; slots are those of each of them."""
FIELDS = {
    key: f"{key}_s"
    for kinds in (CLUSTER, HEALTH, BATCH)
    for key, kind in kinds.items()
    if kind is DURATION
}
