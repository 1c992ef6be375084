"""What agents have observed of their hosts, as views show it."""

from jupyter_dist.model.topology import GpuLinks, GpuProcess, GpuView, LinkGroup, NicView
from jupyter_dist.protocol import host_agent_pb2 as pb


def read_gpus(seen: pb.Telemetry, since_s: float) -> tuple[GpuView, ...]:
    """Read the GPUs of a sample that came so many seconds ago."""

    def read(gpu: pb.GpuSample) -> GpuView:
        return GpuView(
            index=gpu.index,
            name=gpu.name,
            utilisation_percent=gpu.utilisation_percent,
            memory_used_bytes=gpu.memory_used_bytes,
            memory_total_bytes=gpu.memory_total_bytes,
            power_w=gpu.power_w,
            power_limit_w=gpu.power_limit_w,
            temperature_c=gpu.temperature_c,
            ecc_errors=gpu.ecc_errors,
            xid=gpu.xid,
            xid_age_s=round(gpu.xid_age_s + seen.age_s + since_s, 1) if gpu.xid else 0.0,
            pcie_generation=gpu.pcie_generation,
            pcie_lanes=gpu.pcie_lanes,
            mig=gpu.mig,
            is_throttled=gpu.is_throttled,
            strangers=tuple(
                GpuProcess(pid=each.pid, name=each.name, memory_bytes=each.memory_bytes)
                for each in gpu.strangers
            ),
            problem=gpu.problem,
        )

    return tuple(map(read, seen.gpus))


def read_nics(seen: pb.Telemetry) -> tuple[NicView, ...]:
    """Read the network cards of a sample."""
    return tuple(
        NicView(
            name=nic.name,
            speed_mbps=nic.speed_mbps,
            rdma=nic.rdma,
            is_up=nic.is_up,
            numa_node=nic.numa_node,
            nearest_gpus=tuple(nic.nearest_gpus),
            distance=nic.distance,
        )
        for nic in seen.nics
    )


def read_links(joined: pb.Joined) -> tuple[LinkGroup, ...]:
    """Read what joins the GPUs of a host."""
    return tuple(
        LinkGroup(
            kind=group.kind,
            gpus=tuple(group.gpus),
            lanes=group.lanes,
            is_switched=group.is_switched,
            has_p2p=group.has_p2p if group.HasField("has_p2p") else None,
        )
        for group in joined.links
    )


def read_gpu_links(joined: pb.Joined) -> tuple[GpuLinks, ...]:
    """Read what each GPU of a host can do; their names come with telemetry."""
    return tuple(
        GpuLinks(
            index=gpu.index,
            pcie_generation=gpu.pcie_generation,
            pcie_lanes=gpu.pcie_lanes,
            nvlink_version=gpu.nvlink_version,
            nvlink_count=gpu.nvlink_count,
        )
        for gpu in joined.gpus
    )
