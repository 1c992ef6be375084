"""What all ranks must agree on before JAX is let loose: where it finds out itself, it aborts."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from jupyter_dist.errors import FrameworkError, UsageError
from jupyter_dist.frameworks.jax.forming.arguments import DEFAULT_TIMEOUT_S, InitializeRequest
from jupyter_dist.frameworks.rank_facts import group_ranks, name_by_value
from jupyter_dist.model.hosts.addresses import join_address, split_address
from jupyter_dist.model.hosts.rank import name_ranks

_WILDCARDS = {"0.0.0.0", "::"}  # noqa: S104  (what others give is understood)


class Facts(msgspec.Struct, frozen=True):
    """What a rank brings along."""

    wish: InitializeRequest | None = None
    versions: str = ""
    """As `jax 0.10.2 and jaxlib 0.10.2`."""
    bind_host: str = ""
    services: int = 0
    """Coordination services that were used up in this generation."""
    has_this: bool = False
    """What stands here is what is asked for."""
    problem: str = ""
    """What is in the way here; then there is no wish."""
    is_usage: bool = False
    """The caller can mend it."""


class Settings(msgspec.Struct, frozen=True):
    """How JAX was formed, for who joins later; by rank."""

    process_ids: tuple[int, ...] = ()
    local_device_ids: tuple[tuple[int, ...] | None, ...] = ()
    partition_indices: tuple[int | None, ...] = ()
    timeout_s: float = DEFAULT_TIMEOUT_S


class Agreement(msgspec.Struct, frozen=True):
    """What follows for all ranks."""

    rank_of_process: tuple[int, ...]
    coordinator_address: str
    """Empty: that of the service."""
    at_rank: int
    """Its host has the service."""
    bind: str
    settings: Settings
    is_standing: bool
    """All ranks have it already."""


def find_agreement(facts: Mapping[int, Facts]) -> Agreement:
    """Find what follows from what all ranks bring; raises FrameworkError, UsageError on all."""
    _refuse_problems(facts)
    wishes = {rank: one.wish for rank, one in sorted(facts.items()) if one.wish is not None}
    _refuse_different(
        {rank: one.versions for rank, one in facts.items()},
        "JAX is not the same on all ranks",
        "Install the same version on all hosts (%dist_check lists them).",
        FrameworkError,
    )
    _refuse_counts({rank: wish.num_processes for rank, wish in wishes.items()})
    rank_of_process = _order({rank: wish.process_id for rank, wish in wishes.items()})
    address, bind = _find_address(wishes, facts, rank_of_process[0])
    return Agreement(
        rank_of_process=rank_of_process,
        coordinator_address=address,
        at_rank=rank_of_process[0] if address or wishes[0].bind_address else 0,
        bind=bind,
        settings=Settings(
            process_ids=tuple(wish.process_id for wish in wishes.values()),
            local_device_ids=tuple(wish.local_device_ids for wish in wishes.values()),
            partition_indices=tuple(wish.partition_index for wish in wishes.values()),
            timeout_s=max(wish.timeout_s for wish in wishes.values()),
        ),
        is_standing=all(one.has_this for one in facts.values()),
    )


def _refuse_problems(facts: Mapping[int, Facts]) -> None:
    by_problem = group_ranks({rank: one.problem for rank, one in facts.items() if one.problem})
    if not by_problem:
        return
    text = " ".join(f"{name_ranks(who).capitalize()}: {what}" for what, who in by_problem.items())
    kind = UsageError if all(one.is_usage for one in facts.values() if one.problem) else None
    raise (kind or FrameworkError)(text)


def _refuse_different(
    by_rank: Mapping[int, object], what: str, next_step: str, kind: Callable[[str], Exception]
) -> None:
    """Raise when ranks have different values; the text says which ranks have what."""
    if len(set(by_rank.values())) > 1:
        raise kind(f"{what}: {name_by_value(by_rank)}. {next_step}")


def _refuse_counts(counts: Mapping[int, int]) -> None:
    _refuse_different(
        counts,
        "num_processes is not the same on all ranks",
        "Leave it out: then it is the number of ranks.",
        UsageError,
    )
    given = next(iter(counts.values()))
    if given != len(counts):
        raise UsageError(
            f"num_processes is {given}, and this cluster has {len(counts)} ranks; each of them is "
            "one process of JAX. Leave num_processes out, or start a cluster of that size."
        )


def _order(process_ids: Mapping[int, int]) -> tuple[int, ...]:
    """Return the rank of each process; raises UsageError when some process has none, or several."""
    count = len(process_ids)
    ranks_of = group_ranks(process_ids)
    wrong = [
        f"{process_id} on {name_ranks(who)}"
        for process_id, who in ranks_of.items()
        if len(who) > 1 or not 0 <= process_id < count
    ]
    if wrong:
        raise UsageError(
            f"process_id is {', '.join(wrong)}. Each rank needs one of its own, 0-{count - 1}. "
            "Leave it out: then it is the rank."
        )
    return tuple(ranks_of[process_id][0] for process_id in range(count))


def _find_address(
    wishes: Mapping[int, InitializeRequest], facts: Mapping[int, Facts], first: int
) -> tuple[str, str]:
    """Return the address for clients (empty: that of the service), and the one to listen at.

    `first` is the rank of process 0.
    """
    for name in ("coordinator_address", "bind_address", "port"):
        _refuse_different(
            {rank: getattr(wish, name) or "none" for rank, wish in wishes.items()},
            f"the {name.replace('_', ' ')} is not the same on all ranks",
            "Leave it out: then a free one is taken.",
            UsageError,
        )
    _refuse_different(
        {rank: "given" if w.partition_index is not None else "none" for rank, w in wishes.items()},
        "partition_index must be given on all ranks or on none",
        "Leave it out: then JAX finds it.",
        UsageError,
    )
    wish = wishes[0]
    # One service serves one mesh only. Each way to write a port is a wish for another one there.
    used_up = max(one.services for one in facts.values())
    if wish.coordinator_address or wish.bind_address:
        address, bind = _place(wish, facts[first].bind_host)
        return address, _write_otherwise(bind, used_up)
    host = facts[0].bind_host
    if wish.port:
        return "", _write_otherwise(join_address(host, int(wish.port)), used_up)
    return "", _write_otherwise(join_address(host, 0), used_up - 1) if used_up else ""


def _write_otherwise(address: str, zeros: int) -> str:
    """Return the same address with so many zeros more before its port."""
    host, _colon, port = address.rpartition(":")
    return f"{host}:{'0' * zeros}{port}"


def _place(wish: InitializeRequest, host: str) -> tuple[str, str]:
    """Return both addresses where one was given, or both; `host` is that of process 0."""
    bind = wish.bind_address or wish.coordinator_address
    bind_host, port = split_address(wish.coordinator_address or bind)
    if not port:
        return "", bind
    return join_address(host if bind_host in _WILDCARDS else bind_host, port), bind


def recall(settings: Settings, rank: int, world_size: int) -> dict[str, Any]:
    """Return the arguments of before, where there are as many ranks as then."""
    given: dict[str, Any] = {"initialization_timeout": settings.timeout_s}
    if len(settings.process_ids) == world_size:
        given["process_id"] = settings.process_ids[rank]
        given["local_device_ids"] = settings.local_device_ids[rank]
        given["partition_index"] = settings.partition_indices[rank]
    return given
