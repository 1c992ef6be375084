"""The engines of this host, as the agent sees them from outside."""

import contextlib
import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from jupyter_dist.agent.engines.exit_evidence import Ended, EvidenceKeeper
from jupyter_dist.agent.engines.process_state import ProcessState, read_state, signal_main_thread
from jupyter_dist.agent.engines.starvation import CoreWatch, ReadyEngines
from jupyter_dist.collective.recording.records_file import read_last, read_last_cell, read_records
from jupyter_dist.launch.processes.core_wait import main_core_time
from jupyter_dist.model.ranks.beat_threads import ECHO_THREAD, IO_THREADS
from jupyter_dist.model.ranks.records import CellRecord, RankRecords
from jupyter_dist.model.ranks.signals import WAKING_SIGNAL, RankSignal, from_the_wire
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.births import record_path, stream_path

TAIL_BYTES = 64 * 1024


class EngineTable:
    """Which process is which rank; safe to use from several threads."""

    def __init__(self, run_dir: Path, memory_dir: Path) -> None:
        self._run_dir = run_dir
        self._memory_dir = str(memory_dir)
        self._lock = threading.Lock()
        self._pids: dict[str, int] = {}
        self._born: list[str] = []
        """Engines that have ever had a process here, in order."""
        self.evidence = EvidenceKeeper()
        """What is noted of them, for the case that they end."""
        self.silent: Sequence[str] = ()
        """Engines whose heartbeats are missed, as the coordinator says."""
        self._states: dict[str, tuple[float, ProcessState]] = {}
        """When each engine was looked at last, and what was seen."""
        self._core_watches: dict[str, CoreWatch] = {}
        """For how long engines have lacked a core while they could have answered an interrupt."""
        self._interrupted: dict[str, CellRecord] = {}
        """Engines that have been sent SIGINT, and the cell that they were in."""

    def add(self, engine: str, pid: int) -> None:
        """Take in an engine that was started."""
        with self._lock:
            self._drop_records(_first_rank(engine))
            self._born.append(engine)
            self._pids[engine] = pid
        self.evidence.begin(engine, pid, time.monotonic())

    def _drop_records(self, rank: int) -> None:
        """Remove what ended engines of a rank have recorded: a new one takes their place."""
        for engine in [each for each in self._born if each not in self._pids]:
            path = self._record_path(engine)
            if read_records(path, _first_rank(engine), last=1).rank == rank:
                self._born.remove(engine)
                Path(path).unlink(missing_ok=True)

    def remove(self, engine: str) -> None:
        """Forget an engine that has ended."""
        with self._lock:
            self._pids.pop(engine, None)
            self._states.pop(engine, None)
            self._core_watches.pop(engine, None)
            self._interrupted.pop(engine, None)

    def living(self) -> list[str]:
        """Engines whose process has not been seen to end."""
        with self._lock:
            return list(self._pids)

    def pid(self, engine: str) -> int | None:
        """Return the process of an engine that lives; None: it does not."""
        with self._lock:
            return self._pids.get(engine)

    def send_signal(self, engines: list[str], signal_number: int) -> list[str]:
        """Signal these engines' processes; give those that still were there."""
        reached = []
        with self._lock:
            for engine in engines:
                pid = self._pids.get(engine)
                if pid is None:
                    continue
                send = signal_main_thread if signal_number == WAKING_SIGNAL else os.kill
                with contextlib.suppress(ProcessLookupError):
                    send(pid, from_the_wire(signal_number))
                    reached.append(engine)
        if signal_number == RankSignal.SIGINT:
            for engine in reached:
                self._watch_for_core(engine)
        return reached

    def sample(self, gpu_memory: Mapping[int, int]) -> list[pb.EngineSample]:
        """Observe CPU, memory and the last collective of each engine.

        `gpu_memory` has the bytes that processes use on GPUs.
        """
        with self._lock:
            pids = self._pids.copy()
        silent = {engine: pids[engine] for engine in self.silent if engine in pids}
        ready = ReadyEngines(silent, ECHO_THREAD, IO_THREADS)
        samples = [
            sample
            for engine, pid in pids.items()
            if (sample := self._sample_one(engine, pid)) is not None
        ]
        starved = ready.find_starved()
        for sample in samples:
            sample.gpu_memory_bytes = gpu_memory.get(pids[sample.engine], 0)
            sample.is_starved = sample.engine in starved
        memory = {sample.engine: sample.rss_bytes for sample in samples}
        self.evidence.look(memory, time.monotonic())
        return samples

    def _sample_one(self, engine: str, pid: int) -> pb.EngineSample | None:
        state, now_s = read_state(pid), time.monotonic()
        if state.rss_bytes == 0:
            return None  # it has just ended; the zygote tells
        before_s, before = self._states.get(engine, (now_s, state))
        self._states[engine] = now_s, state
        passed_s = now_s - before_s or math.inf
        sample = pb.EngineSample(
            engine=engine,
            cpu_percent=100 * (state.cpu_s - before.cpu_s) / passed_s,
            rss_bytes=state.rss_bytes,
            state=state.letter,
            major_faults_per_s=max(0, state.major_faults - before.major_faults) / passed_s,
            core_s=main_core_time(pid).had_s,
            core_wait_s=self._look_for_core(engine),
        )
        last = read_last(self._record_path(engine), time.monotonic_ns())
        if last is not None:
            sample.collective.CopyFrom(pb.Collective(**msgspec.structs.asdict(last)))
        return sample

    def _watch_for_core(self, engine: str) -> None:
        cell, pid = self.last_cell(engine), self.pid(engine)
        if cell is not None and pid is not None:
            self._core_watches.setdefault(engine, CoreWatch(pid)).look()
            self._interrupted[engine] = cell

    def _look_for_core(self, engine: str) -> float:
        """Return for how long an engine has lacked a core in cells that were interrupted."""
        watch = self._core_watches.get(engine)
        if watch is None:
            return 0.0
        if (cell := self._interrupted.get(engine)) is not None:
            before_s = watch.lacked_s
            # What a rank says of a cell waits for a core as well, after the cell has ended.
            if watch.look() == before_s and self.last_cell(engine) != cell:
                self._interrupted.pop(engine, None)
                watch.rest()
        return watch.lacked_s

    def read_records(self, last: int) -> tuple[RankRecords, ...]:
        """Read what every rank has recorded, also those that have ended: so many calls (0: all).

        Of a rank that had several engines, the one that lives counts, or else the last.
        """
        with self._lock:
            born, living = list(self._born), set(self._pids)
        found: dict[int, RankRecords] = {}
        for engine in born:
            records = read_records(self._record_path(engine), _first_rank(engine), last)
            has_ended = engine not in living
            before = found.get(records.rank)
            if has_ended and before is not None and not before.has_ended:
                continue
            found[records.rank] = msgspec.structs.replace(records, has_ended=has_ended)
        return tuple(records for _rank, records in sorted(found.items()))

    def last_cell(self, engine: str) -> CellRecord | None:
        """Read which cell an engine has begun last; None where that is not recorded."""
        return read_last_cell(self._record_path(engine))

    def _record_path(self, engine: str) -> str:
        return record_path(self._memory_dir, engine)

    def exit_event(self, engine: str, ended: Ended) -> pb.EngineExited:
        """Describe an end, with what the engine wrote last and what the host knows of it."""
        event = ended.event(engine)
        event.stdout_tail, event.stdout_offset = self._tail(engine, "stdout")
        event.stderr_tail, event.stderr_offset = self._tail(engine, "stderr")
        evidence = self.evidence.end(engine, ended, self._record_path(engine), time.monotonic())
        event.evidence.CopyFrom(evidence)
        return event

    def _tail(self, engine: str, stream: str) -> tuple[bytes, int]:
        try:
            with open(stream_path(str(self._run_dir), engine, stream), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                offset = file.seek(max(0, size - TAIL_BYTES))
                return file.read(), offset
        except OSError:
            return b"", 0


def _first_rank(engine: str) -> int:
    """Return the rank that an engine had when it was born, by its name."""
    return int(engine.partition(".")[0])
