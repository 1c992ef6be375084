"""The clusters of this user on this machine, each in one row."""

from collections.abc import Sequence
from time import monotonic, time

import msgspec
import psutil

from jupyter_dist.cluster.connection.status_probe import StatusProbe
from jupyter_dist.control.sockets import end_unused_context
from jupyter_dist.launch.files.connection_file import running_clusters
from jupyter_dist.text.columns import align
from jupyter_dist.text.lists import group_pairs, name_some

PATIENCE_S = 2.0
"""A coordinator that works answers at once."""
_SLICE_S = 0.1
_HEADS = ("name", "state", "ranks", "hosts", "owner", "age")


class RunningCluster(msgspec.Struct, frozen=True, kw_only=True):
    """One cluster, as `jupyter dist list` shows it."""

    name: str
    state: str
    """As a Topology has it, or silent: its coordinator lives and does not answer."""
    ranks: int
    """0 while its hosts have not told how many they take."""
    states: dict[str, int]
    """How many ranks are idle, busy, lost…"""
    hosts: tuple[str, ...]
    owner: str
    """As `notebook train.ipynb`; empty: there is none, or it is not known."""
    age_s: float
    """Since its coordinator was started, in seconds."""


def list_clusters() -> list[RunningCluster]:
    """Ask every running cluster how it is; one that does not answer in 2 s is silent."""
    probes = [StatusProbe(info) for info in running_clusters()]
    try:
        for probe in probes:
            probe.ask()
        deadline_s = monotonic() + PATIENCE_S
        for probe in probes:
            while probe.is_waiting and not probe.is_gone and monotonic() < deadline_s:
                probe.listen(_SLICE_S)
        return [_describe(probe) for probe in probes if not probe.is_gone]
    finally:
        for probe in probes:
            probe.close()
        end_unused_context()


def write_clusters(clusters: Sequence[RunningCluster]) -> str:
    """Return a table, a cluster in each line; empty for none."""
    if not clusters:
        return ""
    rows = [
        (
            each.name,
            each.state,
            ", ".join(f"{count} {state}" for state, count in each.states.items())
            or str(each.ranks or ""),
            name_some(each.hosts),
            each.owner or "none",
            _write_age(each.age_s),
        )
        for each in clusters
    ]
    return "\n".join(align([_HEADS, *rows])) + "\n"


def _describe(probe: StatusProbe) -> RunningCluster:
    info, topology = probe.info, probe.topology
    states = group_pairs((engine.state, engine.rank) for engine in topology.engines)
    is_silent = probe.is_waiting or bool(probe.problem)
    try:
        age_s = time() - psutil.Process(info.coordinator_pid).create_time()
    except psutil.Error:  # it has just ended
        age_s = 0.0
    return RunningCluster(
        name=info.name,
        state="silent" if is_silent else topology.state,
        ranks=len(topology.engines) or info.world_size,
        states={state: len(ranks) for state, ranks in states.items()},
        hosts=tuple(host.name for host in topology.hosts or info.hosts),
        owner=probe.owner,
        age_s=age_s,
    )


def _write_age(seconds: float) -> str:
    """Return an age in its two largest units: `45 s`, `12 min`, `3 h 5 min`, `2 d 4 h`."""
    minutes = int(seconds // 60)
    hours, days = minutes // 60, minutes // 1440
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{int(seconds)} s"
