"""What one rank wants of init_process_group, once and again, and whether all want the same."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from jupyter_dist.errors import FrameworkError, UsageError
from jupyter_dist.frameworks.rank_facts import name_by_value
from jupyter_dist.model.hosts.rank import name_ranks

CALL = "torch.distributed.init_process_group()"

PLACE_VARIABLES = ("MASTER_ADDR", "MASTER_PORT")

ENV = "env"
"""By MASTER_ADDR and MASTER_PORT, which are ours unless the user has set them."""
TCP = "tcp"
FOREIGN = "its own way"
"""A file, a store or a rendezvous of the user's own: left as it is."""

Arguments = Mapping[str, Any]
"""Those of init_process_group, by name."""

_PORTS = 65_536


class GroupRequest(msgspec.Struct, frozen=True):
    """What a rank brings to the meeting before its default group is formed."""

    version: str = ""
    """Of torch; empty: it cannot be imported."""
    backends: str = ""
    """By device, as `cpu:gloo,cuda:nccl`."""
    way: str = ENV
    host: str = ""
    """Where the user wants the store; empty: on the data path of rank 0."""
    port: int = 0
    on_host: int = 0
    """Number of the host of this rank."""
    store: str = ""
    """Where rank 0 has opened the store, as `10.0.0.2:41234` or `[fd00::2]:41234`."""
    key: str = ""
    """Under which this group is in a store that may have served another one before."""
    mistake: str = ""
    """What is wrong with the call of this rank; it reads on from `rank 2: `."""
    obstacle: str = ""
    """What stands in its way though the call is right."""


class Place(msgspec.Struct, frozen=True):
    """What a call says of where to meet, and of who comes."""

    way: str
    host: str = ""
    """Empty: anywhere."""
    port: int = 0
    rank: int | None = None
    world_size: int | None = None


class Settings(msgspec.Struct, frozen=True):
    """How a group was formed; who joins later does it like that."""

    backend: str | None = None
    timeout_s: float | None = None
    device_id: str = ""
    place: Place = Place(ENV)
    """Where it is to be again, if it can."""


def read_init_method(init_method: str | None, environment: Mapping[str, str]) -> Place:
    """Read where a call wants to meet; raises UsageError."""
    parts = urlsplit(init_method or "env://")
    said = {name: words[-1] for name, words in parse_qs(parts.query).items()}
    rank, world_size = (_number(name, said.get(name)) for name in ("rank", "world_size"))
    if parts.scheme == "tcp":
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise UsageError(f"init_method={init_method!r}: {error}. {_TCP}") from None
        if not host or not port:
            raise UsageError(f"init_method={init_method!r} has no host and port. {_TCP}")
        return Place(TCP, host, port, rank, world_size)
    if parts.scheme != "env":
        return Place(FOREIGN, rank=rank, world_size=world_size)
    port = _number("MASTER_PORT", environment.get("MASTER_PORT")) or 0
    if not 0 <= port < _PORTS:
        raise UsageError(f"MASTER_PORT={port} is no port. Accepted: 1-65535, or leave it out.")
    if rank is None:
        rank = _number("RANK", environment.get("RANK"))
    if world_size is None:
        world_size = _number("WORLD_SIZE", environment.get("WORLD_SIZE"))
    return Place(ENV, environment.get("MASTER_ADDR", ""), port, rank, world_size)


_TCP = "Accepted: tcp://HOST:PORT with an address of the host of rank 0; or leave it out."


def _number(name: str, text: str | None) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{name}={text!r} is no number. Leave it out: it is known here.") from None


def check_place(rank: int, world_size: int, given: Sequence[tuple[str, int | None]]) -> str:
    """Return what is wrong with given numbers, each by its name; empty if nothing is."""
    known = {"rank": rank, "RANK": rank, "world_size": world_size, "WORLD_SIZE": world_size}
    wrong = {name: number for name, number in given if number not in {None, known[name]}}
    if not wrong:
        return ""
    said = " and ".join(f"{name}={number}" for name, number in wrong.items())
    right = " and ".join(f"{name}={known[name]}" for name in wrong)
    return (
        f"{said} was given. Accepted here: {right}, or leave it out. For fewer ranks: "
        "group = dist.new_group([0, 1]) after it"
    )


def check_wanted(wanted: Mapping[int, GroupRequest]) -> None:
    """Raise what keeps ranks from forming a group, the same on all of them.

    Raises UsageError for what is wrong with the call, FrameworkError for the rest.
    """
    first = min(wanted)
    # Who has said nothing is content: a rank that is new has not run the cell that sets variables.
    places = {
        rank: _place(each)
        for rank, each in wanted.items()
        if rank == first or each.way != ENV or each.host or each.port
    }
    _refuse({rank: each.mistake for rank, each in wanted.items()}, UsageError)
    _refuse({rank: each.obstacle for rank, each in wanted.items()}, FrameworkError)
    versions = {rank: each.version for rank, each in wanted.items()}
    if len(set(versions.values())) > 1:
        raise FrameworkError(
            f"{CALL}: ranks have different versions of torch: {_by_value(versions)}. Groups of "
            "different versions hang, or mix numbers up: install the same one on all hosts "
            "(%dist_check compares them)."
        )
    for what, told in (
        ("a backend", {rank: each.backends for rank, each in wanted.items()}),
        ("an init_method", {rank: each.way for rank, each in wanted.items()}),
        ("a place to meet", {} if have_own_ports(wanted) else places),
    ):
        if len(set(told.values())) > 1:
            raise UsageError(
                f"{CALL} needs {what} that is the same on all ranks: {_by_value(told)}."
            )
    _refuse_loopback(wanted)


def have_own_ports(wanted: Mapping[int, GroupRequest]) -> bool:
    """Return whether each rank has found a free port for itself, as Lightning does on one host.

    Where they meet is agreed on here anyway: they do it at that of rank 0.
    """
    everyone = wanted.values()
    is_chosen = all(each.way == ENV and each.port for each in everyone)
    ports, hosts = {each.port for each in everyone}, {each.host for each in everyone}
    return is_chosen and len(ports) > 1 and len(hosts) == 1


def _refuse(problems: Mapping[int, str], error: type[UsageError] | type[FrameworkError]) -> None:
    found = {rank: problem for rank, problem in problems.items() if problem}
    if found:
        first = next(iter(found.values()))
        # Numbers differ by rank, and one example is enough to see the mistake.
        alike = [rank for rank, problem in found.items() if problem == first]
        rest = len(found) - len(alike)
        more = f" (and {rest} more with a problem of their own)" if rest else ""
        raise error(f"{CALL}: {name_ranks(alike)}: {first}{more}.")


def _refuse_loopback(wanted: Mapping[int, GroupRequest]) -> None:
    first = wanted[min(wanted)]
    if len({each.on_host for each in wanted.values()}) > 1 and is_loopback(first.host):
        raise UsageError(
            f"{CALL}: MASTER_ADDR is {first.host!r}, where other hosts do not find rank 0. Leave "
            "it out, or give an address of the host of rank 0 that all others can reach."
        )


def is_loopback(host: str) -> bool:
    """Return whether only processes of the same host can reach this address."""
    return host in {"localhost", "::1"} or host.startswith("127.")


def _place(wanted: GroupRequest) -> str:
    return f"{wanted.host or '(none)'}:{wanted.port or '(any)'}"


def _by_value(told: Mapping[int, str]) -> str:
    return name_by_value({rank: value or "none" for rank, value in told.items()})


def settings_of(arguments: Arguments, place: Place) -> Settings:
    """Keep what a later rank needs to make the same call."""
    backend, timeout = arguments.get("backend"), arguments.get("timeout")
    device = arguments.get("device_id")
    return Settings(
        None if backend is None else str(backend).lower(),
        timeout.total_seconds() if isinstance(timeout, timedelta) else None,
        "" if device is None else str(device),
        place,
    )


def arguments_of(settings: Settings) -> dict[str, Any]:
    """Return the arguments of a call like the one before; torch is loaded."""
    import torch

    arguments: dict[str, Any] = {"backend": settings.backend}
    if settings.timeout_s is not None:
        arguments["timeout"] = timedelta(seconds=settings.timeout_s)
    if settings.device_id:
        device = settings.device_id
        arguments["device_id"] = int(device) if device.isdecimal() else torch.device(device)
    return arguments
