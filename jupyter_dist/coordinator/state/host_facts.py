"""What agents tell of their hosts, read once when it comes and drawn often."""

from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from jupyter_dist.model.hosts.topology import GpuLinks, GpuView, LinkGroup, NicView
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.unreadable import read_or

_GPUS = msgspec.msgpack.Decoder(tuple[GpuView, ...])
_NICS = msgspec.msgpack.Decoder(tuple[NicView, ...])
_LINKS = msgspec.msgpack.Decoder(tuple[LinkGroup, ...])


@dataclass
class HostReport:
    """One host, as its agent sees it."""

    cpu_percent: float = 0.0
    memory_used_bytes: int = 0
    nics: tuple[NicView, ...] = ()
    links: tuple[LinkGroup, ...] = ()
    gpu_links: tuple[GpuLinks, ...] = ()
    """Without names: those come with the samples."""
    uuids: tuple[str, ...] = ()
    """Of its GPUs, in NVML's order."""
    _gpus: tuple[GpuView, ...] = ()
    _sampled_s: float | None = None
    """When the oldest number of the last sample was observed; None: there was no sample."""

    def take_joined(self, joined: pb.Joined) -> None:
        """Take in what does not change while the agent lives."""
        self.links = read_or(_LINKS, joined.links, ())
        self.uuids = tuple(gpu.uuid for gpu in joined.gpus)
        self.gpu_links = tuple(
            GpuLinks(
                index=gpu.index,
                pcie_generation=gpu.pcie_generation,
                pcie_lanes=gpu.pcie_lanes,
                nvlink_version=gpu.nvlink_version,
                nvlink_count=gpu.nvlink_count,
            )
            for gpu in joined.gpus
        )

    def take_sample(self, sample: pb.Telemetry, now_s: float) -> None:
        """Take in what an agent observed."""
        self.cpu_percent = sample.cpu_percent
        self.memory_used_bytes = sample.memory_used_bytes
        self._gpus = read_or(_GPUS, sample.gpus, ())
        self.nics = read_or(_NICS, sample.nics, ())
        self._sampled_s = now_s - sample.age_s

    def age_s(self, now_s: float) -> float:
        """Return the age of its numbers; 0 before the first of them."""
        return 0.0 if self._sampled_s is None else now_s - self._sampled_s

    def gpus(self, now_s: float) -> tuple[GpuView, ...]:
        """Return its GPUs; errors of theirs grow older than they were in the sample."""
        age_s = self.age_s(now_s)
        return tuple(
            replace(gpu, xid_age_s=round(gpu.xid_age_s + age_s, 1)) if gpu.xid else gpu
            for gpu in self._gpus
        )
