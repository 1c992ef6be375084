"""What the host can tell about the end of an engine; most of it must be noted while it lives."""

import contextlib
import os
import resource
import signal
import sys
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from jupyter_dist.agent.engines.process_state import read_status
from jupyter_dist.collective.recording.records_file import read_records
from jupyter_dist.probe.cgroup import Cgroup, cgroup_of, count_oom_kills
from jupyter_dist.probe.gpus import bus_of
from jupyter_dist.probe.kernel_log import KernelLog
from jupyter_dist.protocol import host_agent_pb2 as pb

SAMPLES = 60
HISTORY_S = 30.0
"""Age of the oldest memory sample in a report; samples are fewer where they are taken rarely."""
CALLS = 5
KILL_WINDOW_S = 10.0
"""A process of much memory may take seconds to end after the kernel has killed it."""
GPU_WINDOW_S = 60.0
AVAILABLE_FOR_S = 1.5
"""So long what was seen of the host's memory counts, and the last look however long it is ago: an
end frees what the process had."""
FULL_BYTES = 1 << 20
SHARED_MEMORY = "/dev/shm"  # noqa: S108  (it is looked at, nothing is written there)
_Counted = tuple[Path, int]
"""Whose kills are counted together: a group, by its folder and its inode."""
_WHOLE_HOST: _Counted = (Path(), 0)


class Ended(NamedTuple):
    """How a process ended, as its parent was told."""

    pid: int = 0
    """0: nobody has seen it end, but the process that it came from is gone."""
    exit_code: int = 0
    signal: int = 0
    peak_bytes: int = 0
    """The most memory it ever had; 0: not told."""

    def event(self, engine: str) -> pb.EngineExited:
        """Return what is told of the end of this engine, without evidence."""
        return pb.EngineExited(
            engine=engine, pid=self.pid, exit_code=self.exit_code, signal=self.signal
        )


@dataclass
class _Engine:
    """What was noted of one engine."""

    pid: int
    buses: tuple[str, ...]
    """Addresses of its GPUs."""
    group: Cgroup | None = None
    memory: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    peak_bytes: int = 0
    address_limit_bytes: int = 0


class _Kills:
    """How often the OOM killer has struck in each group, and which ends that explains."""

    def __init__(self) -> None:
        self._counts: dict[_Counted, deque[tuple[float, int]]] = {}
        self._explained: dict[_Counted, list[float]] = {}

    def look(self, group: Cgroup | None, now_s: float) -> int:
        """Note the count; give how many kills of the last seconds no end accounts for."""
        key, count = _count(group)
        counts = self._counts.setdefault(key, deque())
        counts.append((now_s, count))
        while len(counts) > 1 and counts[1][0] <= now_s - KILL_WINDOW_S:
            counts.popleft()
        first_s, first = counts[0]
        claims = [at_s for at_s in self._explained.get(key, ()) if at_s >= first_s]
        return max(0, count - first - len(claims))

    def claim(self, group: Cgroup | None, now_s: float) -> None:
        """Note that a kill has ended an engine of ours: it explains no other end."""
        key, _ = _count(group)
        self._explained.setdefault(key, []).append(now_s)


def _count(group: Cgroup | None) -> tuple[_Counted, int]:
    """Return the kills in a group so far, or of the whole host where the group tells none."""
    kills = group.oom_kills if group is not None else None
    if group is None or kills is None:
        return _WHOLE_HOST, count_oom_kills()
    inode = 0
    with contextlib.suppress(OSError):
        # A group that was removed and made again, under the same name, counts from 0.
        inode = os.stat(group.folder).st_ino
    return (group.folder, inode), kills


class EvidenceKeeper:
    """Notes what engines need and what happens around them; safe to use from several threads."""

    def __init__(self, kernel_log: KernelLog | None = None) -> None:
        self._lock = threading.Lock()
        self._engines: dict[str, _Engine] = {}
        self._devices: dict[str, str] = {}
        self._kills = _Kills()
        self._log = kernel_log or KernelLog()
        self._available: deque[tuple[float, int]] = deque(maxlen=4)
        self._is_shared_memory_full = False

    def place(self, engine: str, device: str) -> None:
        """Note which devices an engine will have, as CUDA_VISIBLE_DEVICES has them."""
        with self._lock:
            self._devices[engine] = device

    def begin(self, engine: str, pid: int, now_s: float) -> None:
        """Note an engine that was born."""
        with self._lock:
            devices = self._devices.pop(engine, "").split(",")
            record = _Engine(pid, tuple(bus for device in devices if (bus := bus_of(device))))
            self._engines[engine] = record
            self._look_at(record)
            self._kills.look(record.group, now_s)

    def look(self, memory: Mapping[str, int], now_s: float) -> None:
        """Note how much memory engines have, and what there is besides; a few reads for each."""
        with self._lock:
            groups: dict[Path | None, Cgroup | None] = {}
            for engine, rss_bytes in memory.items():
                record = self._engines.get(engine)
                if record is None:
                    continue
                record.memory.append((now_s, rss_bytes))
                while record.memory[0][0] < now_s - HISTORY_S:
                    record.memory.popleft()
                self._look_at(record)
                group = record.group
                groups[group.folder if group is not None else None] = group
            for group in groups.values():
                self._kills.look(group, now_s)
            self._available.append((now_s, psutil.virtual_memory().available))
            self._is_shared_memory_full = _is_full(SHARED_MEMORY)
            self._log.read(now_s)

    def end(self, engine: str, ended: Ended, record_path: str, now_s: float) -> pb.Evidence:
        """Gather what there is about an engine that has ended, and forget it."""
        with self._lock:
            record = self._engines.pop(engine, None)
            if record is None:
                return pb.Evidence()
            self._log.read(now_s)
            kills = self._kills.look(record.group, now_s)
            since_s = now_s - KILL_WINDOW_S
            if ended.signal != signal.SIGKILL or self._log.names_others(record.pid, since_s):
                kills = 0
            elif kills:
                self._kills.claim(record.group, now_s)
            said = self._log.kills(record.pid, since_s)
            # What it had at most counts processes of its own as well, so it is told of a kill only.
            peak_bytes = ended.peak_bytes if kills or said else 0
            calls = read_records(record_path, 0, CALLS).calls
            return pb.Evidence(
                oom_kills=kills,
                memory_limit_bytes=record.group.limit_bytes if record.group is not None else 0,
                memory_available_bytes=self._least_available(now_s),
                memory=_history(record, peak_bytes, now_s),
                calls=msgspec.msgpack.encode(calls),
                gpu_errors=self._gpu_errors(record, now_s - GPU_WINDOW_S),
                address_limit_bytes=record.address_limit_bytes,
                is_shared_memory_full=self._is_shared_memory_full or _is_full(SHARED_MEMORY),
                kernel=said,
            )

    def close(self) -> None:
        """Stop reading the kernel's log."""
        with self._lock:
            self._log.close()

    def _gpu_errors(self, record: _Engine, since_s: float) -> list[str]:
        buses = record.buses
        return [text for bus in buses for text in self._log.gpu_errors(record.pid, bus, since_s)]

    def _look_at(self, record: _Engine) -> None:
        # Somebody may put it into another group or under another limit at any time.
        group = cgroup_of(record.pid)
        # One that is just ending is shown in the first group of all: that tells nothing of it.
        if group is not None and (record.group is None or not group.is_first):
            record.group = group
        record.peak_bytes = _peak_of(record.pid) or record.peak_bytes
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                soft, _hard = resource.prlimit(record.pid, resource.RLIMIT_AS)
                record.address_limit_bytes = 0 if soft == resource.RLIM_INFINITY else soft

    def _least_available(self, now_s: float) -> int:
        recent = [size for at_s, size in self._available if at_s >= now_s - AVAILABLE_FOR_S]
        last = [size for _, size in self._available][-1:]
        return min([*recent, *last, psutil.virtual_memory().available])


def _history(record: _Engine, peak_bytes: int, now_s: float) -> list[pb.MemorySample]:
    samples = [
        pb.MemorySample(age_s=now_s - at_s, rss_bytes=rss_bytes)
        for at_s, rss_bytes in record.memory
    ]
    if peak_bytes > record.peak_bytes:  # so it had that much after the last look
        samples.append(pb.MemorySample(age_s=0.0, rss_bytes=peak_bytes))
    return samples


def _peak_of(pid: int) -> int:
    """Return the most memory that a process ever had; 0 when it is gone."""
    peak = read_status(pid, "VmHWM")
    return int(peak.split()[0]) * 1024 if peak else 0


def _is_full(folder: str) -> bool:
    try:
        state = os.statvfs(folder)
    except OSError:
        return False
    return state.f_blocks > 0 and state.f_bavail * state.f_frsize < FULL_BYTES
