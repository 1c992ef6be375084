"""What of a topology is the same in each run of a notebook: nothing that was measured."""

from msgspec.structs import replace

from jupyter_dist.model.hosts.topology import EngineView, GpuView, HostView, Topology

STARTED = "started"
"""In place of what a rank was at the moment: one that is lost may be replaced a moment later."""


def unmeasured(topology: Topology) -> Topology:
    """Leave out figures, processes, and how ranks were at the moment."""
    hosts = tuple(_host(host) for host in topology.hosts)
    return replace(topology, generation=0, note="", job="", hosts=hosts)


def _host(host: HostView) -> HostView:
    return replace(
        host,
        cpu_percent=0.0,
        memory_used_bytes=0,
        sampled_s=0.0,
        nics=(),  # seen with the first figures, which come before the end or do not
        gpus=tuple(GpuView(index=gpu.index, name=gpu.name, mig=gpu.mig) for gpu in host.gpus),
        engines=tuple(_engine(engine) for engine in host.engines),
    )


def _engine(engine: EngineView) -> EngineView:
    return EngineView(
        rank=engine.rank,
        local_rank=engine.local_rank,
        state=STARTED,
        device=engine.device,
        devices=engine.devices,
    )
