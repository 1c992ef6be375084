"""Where a rank can be: its host, or another one that has a slot free. Changes nothing."""

from collections.abc import Collection

import msgspec

from jupyter_dist.coordinator.state.roster import EngineRecord, HostRecord, Roster
from jupyter_dist.model.hosts.rank import RankInfo


def find_seat(roster: Roster, rank: int, *, may_share_devices: bool) -> RankInfo | None:
    """Return a place for a new engine of this rank: on its own host if that is up, or elsewhere."""
    old = roster[rank].info
    own = roster.hosts[old.host]
    if own.joined is not None and not own.is_lost:
        return old
    for host_rank, host in enumerate(roster.hosts.values()):
        engines = [engine for engine in roster.on_host(host.name) if engine.is_present]
        if host.joined is None or host.is_lost or not _has_room(host, engines, may_share_devices):
            continue
        taken = {engine.info.local_rank for engine in engines}
        local_rank = next(number for number in range(len(taken) + 1) if number not in taken)
        return msgspec.structs.replace(
            old,
            host=host.name,
            host_rank=host_rank,
            local_rank=local_rank,
            device=_free_device(host, engines),
        )
    return None


def _has_room(host: HostRecord, engines: Collection[EngineRecord], may_share: bool) -> bool:
    """Return whether a host takes one more engine: one for each share of devices, or each core."""
    if may_share and host.shares:
        return True
    cores = host.joined.cpu_count if host.joined is not None else 0
    return len(engines) < (len(host.shares) or max(host.spec.slots, cores))


def _free_device(host: HostRecord, engines: Collection[EngineRecord]) -> str:
    """Return the device, or share of them, that the fewest engines use."""
    used = [engine.info.device for engine in engines]
    return min(host.shares, key=used.count, default="")
