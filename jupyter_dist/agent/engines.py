"""The engines of this host, as the agent sees them from outside."""

import contextlib
import os
import threading
import time
from pathlib import Path

import msgspec
import psutil

from jupyter_dist.collective.records_file import read_last, read_records
from jupyter_dist.model.records import RankRecords
from jupyter_dist.protocol import host_agent_pb2 as pb

TAIL_BYTES = 64 * 1024


class EngineTable:
    """Which process is which rank; safe to use from several threads."""

    def __init__(self, run_dir: Path, memory_dir: Path) -> None:
        self._run_dir = run_dir
        self._memory_dir = memory_dir
        self._lock = threading.Lock()
        self._processes: dict[int, psutil.Process] = {}
        self._born: set[int] = set()
        """Ranks that have ever had a process here."""

    def add(self, rank: int, pid: int) -> None:
        """Take in an engine that was started."""
        with self._lock, contextlib.suppress(psutil.NoSuchProcess):
            self._born.add(rank)
            self._processes[rank] = psutil.Process(pid)

    def remove(self, rank: int) -> None:
        """Forget an engine that has ended."""
        with self._lock:
            self._processes.pop(rank, None)

    def ranks(self) -> list[int]:
        """Ranks whose process has not been seen to end."""
        with self._lock:
            return sorted(self._processes)

    def send_signal(self, ranks: list[int], signal_number: int) -> list[int]:
        """Signal these ranks' main processes; give those that still were there."""
        reached = []
        with self._lock:
            for rank in ranks:
                process = self._processes.get(rank)
                if process is None:
                    continue
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal_number)
                    reached.append(rank)
        return reached

    def sample(self) -> list[pb.EngineSample]:
        """Observe CPU, memory and the last collective of each engine."""
        with self._lock:
            processes = list(self._processes.items())
        return [
            sample
            for rank, process in processes
            if (sample := self._sample_one(rank, process)) is not None
        ]

    def _sample_one(self, rank: int, process: psutil.Process) -> pb.EngineSample | None:
        try:
            with process.oneshot():
                cpu_percent = process.cpu_percent()
                rss_bytes = process.memory_info().rss
        except psutil.Error:
            return None  # it has just ended; the zygote tells
        sample = pb.EngineSample(rank=rank, cpu_percent=cpu_percent, rss_bytes=rss_bytes)
        last = read_last(self._record_path(rank), time.monotonic_ns())
        if last is not None:
            sample.collective.CopyFrom(pb.Collective(**msgspec.structs.asdict(last)))
        return sample

    def read_records(self, last: int) -> tuple[RankRecords, ...]:
        """Read what every rank has recorded, also those that have ended: so many calls (0: all)."""
        with self._lock:
            born, living = sorted(self._born), set(self._processes)
        found = (read_records(self._record_path(rank), rank, last) for rank in born)
        return tuple(
            msgspec.structs.replace(records, has_ended=records.rank not in living)
            for records in found
        )

    def _record_path(self, rank: int) -> Path:
        return self._memory_dir / f"rank-{rank}.collectives"

    def exit_event(
        self, rank: int, pid: int, exit_code: int, signal_number: int
    ) -> pb.EngineExited:
        """Describe an end, with the last of what the engine wrote."""
        event = pb.EngineExited(rank=rank, pid=pid, exit_code=exit_code, signal=signal_number)
        event.stdout_tail, event.stdout_offset = self._tail(rank, "stdout")
        event.stderr_tail, event.stderr_offset = self._tail(rank, "stderr")
        return event

    def _tail(self, rank: int, stream: str) -> tuple[bytes, int]:
        try:
            with open(self._run_dir / f"rank-{rank}.{stream}", "rb") as file:
                size = file.seek(0, os.SEEK_END)
                offset = file.seek(max(0, size - TAIL_BYTES))
                return file.read(), offset
        except OSError:
            return b"", 0
