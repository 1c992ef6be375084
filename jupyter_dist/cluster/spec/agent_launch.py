"""Who starts the agents of a cluster: ssh and this machine, or the nodes of a batch job."""

import os
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from jupyter_dist.cluster.spec.checks import find_directory, read_text_file
from jupyter_dist.cluster.spec.host_list import hosts_of_job
from jupyter_dist.errors import UsageError
from jupyter_dist.launch.batch.allocation import Allocation, check_room, find_allocation
from jupyter_dist.model.spec.batch import (
    BATCH_SYSTEMS,
    BATCH_TITLES,
    WITH_COORDINATOR,
    BatchSpec,
    check_batch,
)
from jupyter_dist.model.spec.cluster_spec import (
    JOIN,
    MOST_HOSTS,
    MOST_SLOTS,
    ClusterSpec,
    default_timeout_s,
)
from jupyter_dist.model.spec.sendable import shorten
from jupyter_dist.options.start_options import START_LAUNCHERS

_OF_A_JOB = {
    "nodes": "nodes",
    "template": "template",
    "queue": "queue",
    "account": "account",
    "scheduler": "scheduler",
    "time_limit_s": "time limit",
    "job_name": "job name",
    "job_dir": "job directory",
    "launcher_args": "launcher argument",
}
"""Wishes that only a batch launcher can fulfil, and how they are called."""
_OF_A_SUBMISSION = ("template", "queue", "account", "scheduler", "time_limit_s", "job_name")
"""Those among them that an allocation has settled already."""
_FIELDS = ("nodes", "queue", "account", "scheduler", "time_limit_s", "job_name")
"""Those that are a field of BatchSpec as they stand."""


def apply_launcher(
    asked: Mapping[str, Any],
    draft: ClusterSpec,
    named: str,
    environ: Mapping[str, str] = os.environ,
) -> ClusterSpec:
    """Apply what was said of launcher, nodes and job; `named` are the hosts that someone named.

    Raises UsageError for what does not go together.
    """
    launcher = asked.get("launcher")
    if launcher is not None and launcher not in START_LAUNCHERS:
        raise UsageError(
            f"launcher {launcher!r} is unknown. Accepted: {', '.join(START_LAUNCHERS)}."
        )
    if draft.is_coordinator_in_job:
        _check_job_for_coordinator(launcher, draft, named)
    is_around_us = launcher == "auto" and not named and draft.coordinator is None
    allocation = find_allocation(environ) if is_around_us else None
    if launcher in BATCH_SYSTEMS or draft.batch is not None or allocation is not None:
        _check_no_hosts(launcher, draft, named)
        if allocation is None:
            return _with_job(draft, _read_batch(launcher, asked, draft), asked, None)
        return _with_job(draft, _within(allocation, asked), asked, allocation)
    _check_nothing_of_jobs(launcher, asked)
    if "slots" in asked:
        draft = _with_slots(draft, asked["slots"], named)
    if launcher in ("local", "ssh"):
        hosts = tuple(
            host if host.launcher == JOIN else replace(host, launcher=launcher)
            for host in draft.hosts
        )
        return replace(draft, hosts=hosts)
    return draft


def _read_batch(launcher: str | None, asked: Mapping[str, Any], spec: ClusterSpec) -> BatchSpec:
    """Put a job together; what is asked for goes before what the specification says."""
    draft = spec.batch
    if draft is None:
        if "nodes" not in asked:
            raise UsageError(
                f"launcher {launcher!r} has to know how many nodes to ask for. Say it with --nodes "
                "N, for example --nodes 2 --slots 8."
            )
        draft = BatchSpec(system=str(launcher), nodes=asked["nodes"])
    if launcher in BATCH_SYSTEMS:
        draft = replace(draft, system=launcher)
    batch = replace(draft, **{field: asked[field] for field in _FIELDS if field in asked})
    template = asked.get("template", "")
    if not template and "\n" not in batch.template:  # a specification names the file
        template = batch.template
    if template:
        batch = replace(batch, template=_read_template(template))
    directory = asked.get("job_dir", batch.directory)
    if spec.coordinator is None or spec.is_coordinator_in_job:  # else it is looked at there
        directory = _check_job_directory(directory)
    arguments = tuple(asked.get("launcher_args", batch.arguments))
    return replace(batch, arguments=arguments, directory=os.fspath(directory))


def _within(allocation: Allocation, asked: Mapping[str, Any]) -> BatchSpec:
    """Use the allocation that we are in, or some of its nodes."""
    settled = next((_OF_A_JOB[wish] for wish in _OF_A_SUBMISSION if wish in asked), "")
    if settled:
        raise UsageError(
            f"{settled} says how a job is submitted, and --launcher auto submits none here: it "
            f"uses the allocation that this process is in ({allocation.label}). Leave it out, or "
            f"submit a job of its own with --launcher {allocation.system}."
        )
    nodes = asked.get("nodes", allocation.nodes)
    check_room(allocation, nodes, asked.get("slots", 0))
    return BatchSpec(
        system=allocation.system,
        nodes=nodes,
        is_within=True,
        arguments=tuple(asked.get("launcher_args", ())),
        directory=_check_job_directory(asked.get("job_dir", "")),
    )


def _with_job(
    draft: ClusterSpec, batch: BatchSpec, asked: Mapping[str, Any], allocation: Allocation | None
) -> ClusterSpec:
    """Let the nodes of a job be the hosts."""
    check_batch(batch, MOST_HOSTS)
    if batch.system in ("ray", "dask") and "python" in asked:
        raise UsageError(
            f"python {asked['python']!r} means nothing to {BATCH_TITLES[batch.system]}, whose "
            "workers start our agents with their own Python. Leave it out."
        )
    slots = draft.hosts[0].slots if draft.batch is not None else 0
    if allocation is not None:
        slots = allocation.slots_per_node or slots
    like = replace(draft.hosts[0], slots=asked.get("slots", slots))
    hosts = hosts_of_job(batch.system, batch.nodes, like)
    timeout_s = draft.timeout_s
    if timeout_s == default_timeout_s(draft.hosts):
        timeout_s = default_timeout_s(hosts)
    return replace(draft, batch=batch, hosts=hosts, timeout_s=timeout_s)


def _read_template(path: str | os.PathLike[str]) -> str:
    text = read_text_file(path, "template")
    if not text.strip():
        raise UsageError(f"template {str(path)!r} is empty. Give the job script to be submitted.")
    return text if text.endswith("\n") else f"{text}\n"


def _check_job_directory(given: str | os.PathLike[str]) -> str:
    """Return the whole path of a directory in which we can write; empty stays empty."""
    if not str(given):
        return ""
    directory = find_directory(given)
    if not directory or not os.access(directory, os.W_OK | os.X_OK):
        raise UsageError(
            f"job directory {shorten(str(given))} is not a directory on this machine in which "
            "you can write. Give one that all nodes see as well, for example in your home."
        )
    return directory


def _check_job_for_coordinator(launcher: str | None, draft: ClusterSpec, named: str) -> None:
    """Raise UsageError unless a job is submitted whose first node can reach the others."""
    system = launcher
    if launcher not in BATCH_SYSTEMS and draft.batch is not None:
        system = draft.batch.system
    if system in WITH_COORDINATOR and not named:
        return
    given = f"launcher {system!r}" if system is not None else "no launcher"
    if named:
        given = f"hosts {named!r}"
    elif system in BATCH_SYSTEMS:
        given += ", whose jobs cannot start a program on their other nodes from the first one,"
    else:
        given += ", which submits no job,"
    raise UsageError(
        f"coordinator 'job' and {given} do not go together: it runs on the first node of a job "
        f"that is submitted for it. Say --launcher {'|'.join(WITH_COORDINATOR)} and --nodes N, "
        "or --coordinator here or HOST."
    )


def _check_no_hosts(launcher: str | None, draft: ClusterSpec, named: str) -> None:
    if named:
        system = launcher if launcher in BATCH_SYSTEMS else getattr(draft.batch, "system", "auto")
        raise UsageError(
            f"hosts {named!r} and launcher {system!r} do not go together: a scheduler chooses the "
            "hosts on its own. Leave the hosts out, and say --nodes N and --slots N."
        )
    if launcher in ("local", "ssh"):
        raise UsageError(
            f"launcher {launcher!r} and the [batch] table of the specification do not go together. "
            "Leave one of both out."
        )


def _check_nothing_of_jobs(launcher: str | None, asked: Mapping[str, Any]) -> None:
    """Raise UsageError for wishes that only a batch launcher can fulfil."""
    what = next((_OF_A_JOB[wish] for wish in _OF_A_JOB if wish in asked), "")
    if not what:
        return
    why = "it needs a batch launcher"
    if launcher == "auto":
        why = "--launcher auto has found no allocation around this process, and starts ranks here"
    raise UsageError(
        f"{what} means nothing here: {why}. Name one, for example --launcher slurm (accepted: "
        f"{', '.join(BATCH_SYSTEMS)}), or say with --hosts where ranks shall be."
    )


def _with_slots(draft: ClusterSpec, slots: int, named: str) -> ClusterSpec:
    """Return hosts that nobody has named so many slots: a notebook may leave its allocation."""
    if named:
        raise UsageError(
            f"slots {slots} and hosts {named!r} do not go together. Say the ranks of each host "
            f"with its name, for example nodeA:{slots}."
        )
    if not 0 <= slots <= MOST_SLOTS:
        raise UsageError(f"{slots} slots are not accepted. Give 1-{MOST_SLOTS}.")
    return replace(draft, hosts=tuple(replace(host, slots=slots) for host in draft.hosts))
