"""How the cluster looks at one moment, for whoever watches it."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jupyter_dist.coordinator.observation.verdict import HangVerdict
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import EngineRecord, HostRecord, Roster
from jupyter_dist.launch.batch.job_watch import JobWatch
from jupyter_dist.model.hosts.topology import EngineView, HostView, Topology
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import WIDGET_EVENT


class Moment(NamedTuple):
    """When a picture is drawn, and what is known then beside the roster."""

    now_s: float
    beat_ages_s: Mapping[int, float]
    """Since the last heartbeat of each rank."""
    is_hang: bool
    """Who is in a collective will not come out of it without help."""


class Snapshot:
    """Draws the roster; each drawing has a number."""

    def __init__(self, roster: Roster, job: JobWatch | None = None) -> None:
        self._roster = roster
        self._job = job
        self._sequence = 0

    def draw(
        self,
        state: str,
        generation: int,
        verdict: HangVerdict,
        beat_ages_s: dict[int, float],
        now_s: float,
    ) -> Topology:
        """Describe everything at this moment; its note is the verdict's text, and the job's."""
        self._sequence += 1
        moment = Moment(now_s, beat_ages_s, is_hang=verdict.kind == "hang")
        engines, job = self._roster.by_host(), self._job
        hosts = tuple(
            _host_view(host, engines[name], moment) for name, host in self._roster.hosts.items()
        )
        return Topology(
            cluster=self._roster.cluster,
            state=state,
            generation=generation,
            sequence=self._sequence,
            note="; ".join(filter(None, (verdict.text, job.note if job is not None else ""))),
            job=job.describe() if job is not None else "",
            hosts=hosts,
            axes=self._roster.axes,
        )


def _host_view(host: HostRecord, engines: Iterable[EngineRecord], moment: Moment) -> HostView:
    joined, seen = host.joined or pb.Joined(), host.observed
    return HostView(
        name=host.name,
        state="lost" if host.is_lost else "up" if host.joined else "starting",
        address=host.interface.address if host.interface else "",
        interface=host.interface.name if host.interface else "",
        interface_mbps=host.interface.speed_mbps if host.interface else 0,
        home_address=joined.home_address,
        failed_addresses=tuple(joined.failed_addresses),
        cpu_count=joined.cpu_count,
        cpu_percent=seen.cpu_percent,
        memory_total_bytes=joined.memory_total_bytes,
        memory_used_bytes=seen.memory_used_bytes,
        gpus=seen.gpus(moment.now_s),
        links=seen.links,
        gpu_links=seen.gpu_links,
        nics=seen.nics,
        numa_nodes=joined.numa_nodes,
        sampled_s=round(seen.age_s(moment.now_s), 3),
        engines=tuple(_engine_view(engine, host, moment) for engine in engines),
    )


def _engine_view(engine: EngineRecord, host: HostRecord, moment: Moment) -> EngineView:
    last = engine.collective
    state = str(engine.state)
    if engine.state is EngineState.BUSY and last is not None and last.is_running:
        state = "hung" if moment.is_hang else "collective"
    sample = engine.sample if engine.is_present else None
    # A beat may have come since this moment was taken.
    beat_age_s = max(0.0, moment.beat_ages_s.get(engine.info.rank, 0.0))
    what, busy_s = engine.cell_label, 0.0
    if engine.state is EngineState.BUSY:
        busy_s = moment.now_s - engine.busy_since_s
    aside = f"in the debugger at {engine.stopped_at}" if engine.stopped_at else engine.asks
    if aside and what:
        what = f"{what} ({aside})"
    if engine.task and engine.is_present:
        state, busy_s = "busy", moment.now_s - engine.task_since_s
        task = engine.task if engine.task == WIDGET_EVENT else f"{engine.task} (ipyparallel)"
        what = f"{task}{f', then {what}' if what else ''}"
    return EngineView(
        rank=engine.info.rank,
        local_rank=engine.info.local_rank,
        pid=engine.pid,
        state=state,
        reason=engine.reason,
        beat_age_s=round(beat_age_s, 3) if engine.is_present else 0.0,
        cpu_percent=sample.cpu_percent if sample else 0.0,
        rss_bytes=sample.rss_bytes if sample else 0,
        gpu_memory_bytes=sample.gpu_memory_bytes if sample else 0,
        device=host.index_of(engine.info.device),
        devices=host.indices_of(engine.info.device),
        cell=what,
        busy_s=round(busy_s, 3),
        collective=last,
    )
