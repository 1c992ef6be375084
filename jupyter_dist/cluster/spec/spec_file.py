"""The specification of a cluster as a TOML file: read with every key checked, and written.

    name = "weather"
    timeout = "2m"

    [defaults]                        # for every host that does not say otherwise
    python = "/opt/env"

    [[hosts]]
    name = "node[01-04]"              # or user@host:8, as after --hosts
    slots = 8

In place of [[hosts]] it may have one table [batch], of a job whose nodes are the hosts:

    [batch]
    system = "slurm"
    nodes = 2
    slots = 8

Relative paths of `cwd`, `wheelhouse` and `save_on_preempt` at the top, and of `template` and
`directory` of a job, are meant from the folder of the file; those of hosts, and those inside ssh
commands, stay as they are.
"""

import difflib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import tomli_w
from msgspec.structs import asdict, replace

from jupyter_dist.cluster.spec.host_list import hosts_of_job, parse_hosts
from jupyter_dist.cluster.spec.spec_keys import BATCH, CLUSTER, DEFAULTS, FIELDS, HEALTH, HOST, Kind
from jupyter_dist.errors import HostSpecError, UsageError
from jupyter_dist.model.spec.batch import BatchSpec
from jupyter_dist.model.spec.cluster_spec import (
    MOST_HOSTS,
    ClusterSpec,
    HostSpec,
    default_hosts,
    default_timeout_s,
)
from jupyter_dist.model.spec.liveness import HealthPolicy

_MOST_SHOWN = 80
_HOSTS_ACCEPTED = 'Accepted: tables [[hosts]], each with a name = "…".'


def read_spec(text: str, path: str | PathLike[str], hosts: Sequence[HostSpec] = ()) -> ClusterSpec:
    """Read a specification; `hosts` are those for a file that names none.

    The name is empty when the file has none, and nothing is checked yet but the types. Raises
    UsageError naming the file, the key, what was given and what is accepted.
    """
    try:
        table = tomllib.loads(text)
    except ValueError as problem:  # numbers of thousands of digits are no TOMLDecodeError
        raise UsageError(f"{path} is not TOML: {problem}.") from None
    tables, where = table.pop("hosts", []), str(path)
    defaults = table.pop("defaults", {})
    job = table.pop("batch", None)
    health = table.pop("health", {})
    fields = _read_table(table, CLUSTER, where, also=("defaults", "health", "hosts", "batch"))
    common = _read_table(_as_table(defaults, where, "defaults"), DEFAULTS, f"{where}: [defaults]")
    policy = _read_table(_as_table(health, where, "health"), HEALTH, f"{where}: [health]")
    batch = None
    if job is not None:
        batch, hosts = _read_job(_as_table(job, where, "batch"), path, tables, hosts)
    elif not tables and not hosts:
        hosts = parse_hosts(default_hosts(fields.get("devices_per_engine", 1)))
    all_hosts = tuple(_make_host(common, own) for own in _read_hosts(tables, hosts, where))
    fields.setdefault("timeout_s", default_timeout_s(all_hosts))
    for key in ("cwd", "wheelhouse", "save_on_preempt"):
        if key in fields:
            fields[key] = _beside(path, fields[key])
    return ClusterSpec(
        **{"name": "", **fields}, hosts=all_hosts, health=HealthPolicy(**policy), batch=batch
    )


def names_hosts(text: str) -> bool:
    """Return whether a specification that can be read names hosts on its own."""
    return bool(tomllib.loads(text).get("hosts"))


def write_spec(spec: ClusterSpec) -> str:
    """Write a specification so that `read_spec` gives an equal one; what is usual is left out."""
    usual = ClusterSpec(name="", hosts=(), timeout_s=default_timeout_s(spec.hosts))
    table = _write_table(spec, usual, CLUSTER)
    health = _write_table(spec.health, usual.health, HEALTH)
    if health:
        table["health"] = health
    if spec.batch is None:
        table["hosts"] = [_write_table(host, HostSpec(""), HOST) for host in spec.hosts]
    else:
        table |= _write_job(spec.batch, spec.hosts[0])
    return tomli_w.dumps(table)


def _read_table(
    table: Mapping[str, Any], kinds: Mapping[str, Kind], where: str, also: Sequence[str] = ()
) -> dict[str, Any]:
    """Read every value of a table; gives fields of the specification."""
    known = [*kinds, *also]
    fields: dict[str, Any] = {}
    for key, value in table.items():
        if key not in kinds:
            close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise UsageError(
                f"{where}: key {key!r} is unknown.{hint} Accepted: {', '.join(known)}."
            )
        try:
            fields[FIELDS.get(key, key)] = kinds[key].read(value)
        except (ValueError, OverflowError, SystemError):  # this one is of msgspec 0.21
            raise UsageError(
                f"{where}: {key} = {_show(value)} is not accepted. Accepted: {kinds[key].accepted}."
            ) from None
    return fields


def _write_table(given: Any, usual: Any, kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Return the values that are not the usual ones, under the keys of the file."""
    table: dict[str, Any] = {}
    for key, kind in kinds.items():
        field = FIELDS.get(key, key)
        value = getattr(given, field)
        if value != getattr(usual, field):
            table[key] = kind.write(value)
    return table


def _as_table(value: object, where: str, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(
            f"{where}: {name} = {_show(value)} is not accepted. Accepted: a table, [{name}]."
        )
    return value


def _show(value: object) -> str:
    """Write a value as TOML has it, cut where it is long."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _beside(path: str | PathLike[str], given: str) -> str:
    """Read a path as seen from the folder of the file; an empty one stays empty."""
    is_whole = not given or given.startswith("~")
    return given if is_whole else str(Path(path).parent / given)


def _read_job(
    table: Mapping[str, Any], path: str | PathLike[str], tables: object, named: Sequence[HostSpec]
) -> tuple[BatchSpec, tuple[HostSpec, ...]]:
    """Read [batch]; gives the job and its hosts. A template stays the path of its file."""
    where = f"{path}: [batch]"
    if tables or named:
        raise UsageError(
            f"{where}: a scheduler chooses the hosts on its own. Leave out one of both: this "
            "table, or what names hosts ([[hosts]], --hosts, -n, --hostfile)."
        )
    fields = _read_table(table, BATCH, where)
    for key in ("system", "nodes"):
        if key not in fields:
            raise UsageError(f"{where} has no {key}. Give it one; accepted: {BATCH[key].accepted}.")
    slots = fields.pop("slots", 0)
    if "\n" not in fields.get("template", ""):
        fields["template"] = _beside(path, fields.get("template", ""))
    fields["directory"] = _beside(path, fields.get("directory", ""))
    batch = BatchSpec(**fields)
    nodes = min(batch.nodes, MOST_HOSTS)  # more are refused, but not before all is read
    return batch, hosts_of_job(batch.system, nodes, HostSpec("", slots=slots))


def _write_job(batch: BatchSpec, host: HostSpec) -> dict[str, Any]:
    """Write [batch], and what all of its hosts have as [defaults]."""
    usual = BatchSpec(system="", nodes=0)
    kinds = {key: kind for key, kind in BATCH.items() if key != "slots"}
    job = _write_table(batch, usual, kinds) | ({"slots": host.slots} if host.slots else {})
    defaults = _write_table(replace(host, slots=0), HostSpec(""), DEFAULTS)
    return ({"defaults": defaults} if defaults else {}) | {"batch": job}


def _read_hosts(tables: object, named: Sequence[HostSpec], where: str) -> Iterator[dict[str, Any]]:
    """Yield the fields of each host: those of the file, else those named outside."""
    if not isinstance(tables, list):
        raise UsageError(f"{where}: hosts = {_show(tables)} is not accepted. {_HOSTS_ACCEPTED}")
    if tables and named:
        raise UsageError(
            f"{where} names hosts, and so do you. Leave out one of both: the [[hosts]] of the "
            "file, or --hosts (-n, --hostfile)."
        )
    for number, table in enumerate(tables, 1):
        yield from _read_host(table, where, number)
    if not tables:
        yield from map(_given_fields, named)


def _read_host(table: object, where: str, number: int) -> list[dict[str, Any]]:
    """Read one of [[hosts]]: as many hosts as its name stands for, each with its own fields."""
    if not isinstance(table, dict):
        raise UsageError(f"{where}: hosts = [{_show(table)}] is not accepted. {_HOSTS_ACCEPTED}")
    label = f" ({table['name']})" if isinstance(table.get("name"), str) else ""
    where = f"{where}: [[hosts]] {number}{label}"
    fields = _read_table(table, HOST, where)
    if "name" not in fields:
        raise UsageError(f'{where} has no name. Give it one, for example name = "node[01-04]".')
    name = fields.pop("name")
    try:
        named = [_given_fields(host) for host in parse_hosts(name)]
    except HostSpecError as error:
        raise HostSpecError(name, error.problem, where=f"{where}: name") from None
    for one in named:
        twice = sorted(set(one) & set(fields))
        if twice:
            raise UsageError(
                f"{where}: {twice[0]} is said twice, in the name {name!r} and on its own."
            )
    return [{**one, **fields} for one in named]


def _given_fields(host: HostSpec) -> dict[str, Any]:
    """Return the fields that are not the usual ones, and the name."""
    usual = asdict(HostSpec(""))
    return {field: value for field, value in asdict(host).items() if value != usual[field]}


def _make_host(common: Mapping[str, Any], own: Mapping[str, Any]) -> HostSpec:
    host = HostSpec(**{**common, **own})
    return replace(host, env={**common.get("env", {}), **own.get("env", {})})
