"""What an agent observes of its host and its engines, and how often it tells.

Two threads: one looks at engines, cores and memory and tells of all; the other one asks what may
keep it waiting, drivers above all. Whatever that one last found is told again, with its age.

While the coordinator needs no details, both look rarely, and only changes of engines are sent.
"""

import math
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from jupyter_dist.agent.engines.engine_processes import EngineTable
from jupyter_dist.model.hosts.looks import (
    LOOK_INTERVAL_S,
    least_look_interval_s,
    rare_look_interval_s,
)
from jupyter_dist.probe.gpu_processes import descends_from
from jupyter_dist.probe.gpus import GpuWatch, gpu_addresses
from jupyter_dist.probe.machine import Load, sample_load
from jupyter_dist.probe.nics import NicWatch
from jupyter_dist.protocol import host_agent_pb2 as pb

_SMALL_BYTES, _SMALL_PERCENT = 1 << 20, 1.0
"""Changes of memory and of the use of cores that are not worth a word then."""


class Intervals(NamedTuple):
    """Between two looks, in seconds."""

    machine_s: float
    """At cores and memory, and at what drivers tell."""
    close_s: float
    """At engines, closely."""
    rare_s: float
    """At anything, rarely."""


def plan_looks(interval_s: float, hosts: int = 1) -> Intervals:
    """Return how often to look at what, given the interval that the user wants for the machine."""
    # A part of the interval, so that the machine's turn comes when it is due.
    part_s = interval_s / math.ceil(interval_s / LOOK_INTERVAL_S)
    close_s = max(part_s, least_look_interval_s(hosts))
    return Intervals(interval_s, close_s, rare_look_interval_s(hosts))


class Devices(NamedTuple):
    """What drivers told last."""

    gpus: bytes
    """MessagePack of them, as it is sent."""
    nics: bytes
    memory: Mapping[int, int]
    """Bytes that each process uses on all GPUs together."""
    sampled_s: float
    """When they were asked, by the monotonic clock."""


class Drivers:
    """Whom it asks; of one thread only."""

    def __init__(self) -> None:
        self._gpus = GpuWatch(descends_from(os.getpid()))
        self._nics = NicWatch(gpu_addresses())

    def ask(self) -> Devices:
        """Ask them; may take as long as the slowest driver does."""
        begun_s = time.monotonic()
        gpus = msgspec.msgpack.encode(self._gpus.sample(begun_s))
        nics = msgspec.msgpack.encode(self._nics.sample())
        return Devices(gpus, nics, self._gpus.memory_by_process, begun_s)


class _Pace:
    """How often two threads look, and when they end."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.is_close = True
        self._is_over = False

    def set(self, *, is_close: bool) -> None:
        """Look closely from now on, for the first time at once, or rarely."""
        with self._changed:
            self.is_close = is_close
            self._changed.notify_all()

    def end(self) -> None:
        """Look no more."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def rest(self, since_s: float, close_s: float, rare_s: float) -> bool:
        """Wait until it is time for the next look after the one at `since_s`; False: at the end."""
        with self._changed:
            while not self._is_over:
                due_s = since_s + (close_s if self.is_close else rare_s)
                left_s = due_s - time.monotonic()
                if left_s <= 0:
                    break
                self._changed.wait(left_s)
            return not self._is_over


class Telemetry:
    """Tells until its end."""

    def __init__(
        self, engines: EngineTable, tell: Callable[[pb.AgentEvent], None], intervals: Intervals
    ) -> None:
        self._engines = engines
        self._tell = tell
        self._intervals = intervals
        self._pace = _Pace()
        self._told: dict[str, pb.EngineSample] = {}
        self._devices = Devices(b"", b"", {}, time.monotonic())
        self._load: Load = sample_load()
        self._load_s = 0.0

    def start(self) -> None:
        """Begin to observe."""
        for work, name in ((self._tell_of_all, "telemetry"), (self._ask_drivers, "devices")):
            threading.Thread(target=work, name=name, daemon=True).start()

    def obey(self, command: pb.Observe) -> None:
        """Look closely from now on, or rarely, and see whether silent engines have cores."""
        self._engines.silent = tuple(command.silent)
        self._pace.set(is_close=command.is_close)

    def end(self) -> None:
        """Look no more; returns at once."""
        self._pace.end()

    def _tell_of_all(self) -> None:
        told, since_s = "", time.monotonic()
        while self._pace.rest(since_s, self._intervals.close_s, self._intervals.rare_s):
            since_s = time.monotonic()
            try:
                self._tell(pb.AgentEvent(telemetry=self._choose(self.sample())))
                told = ""
            except Exception as problem:  # noqa: BLE001  (ranks may write anything where we read)
                if repr(problem) != told:
                    sys.stderr.write(f"telemetry: {traceback.format_exc()}")
                told = repr(problem)

    def _choose(self, seen: pb.Telemetry) -> pb.Telemetry:
        """Leave out engines that are as they were told last, unless all is to be told."""
        samples = list(seen.engines)
        if not self._pace.is_close:
            news = [each for each in samples if _is_news(each, self._told.get(each.engine))]
            del seen.engines[:]
            seen.engines.extend(news)
        self._told |= {each.engine: each for each in seen.engines}
        living = {each.engine for each in samples}
        self._told = {name: each for name, each in self._told.items() if name in living}
        return seen

    def sample(self) -> pb.Telemetry:
        """Observe engines, and the machine if it is time; with what drivers told last."""
        now_s = time.monotonic()
        if now_s - self._load_s >= self._intervals.machine_s:
            self._load, self._load_s = sample_load(), now_s
        devices = self._devices
        engines = self._engines.sample(devices.memory)
        told_s = time.monotonic()
        return pb.Telemetry(
            cpu_percent=self._load.cpu_percent,
            memory_used_bytes=self._load.memory_used_bytes,
            engines=engines,
            gpus=devices.gpus,
            nics=devices.nics,
            age_s=told_s - min(self._load_s, devices.sampled_s),
            engines_age_s=told_s - now_s,
        )

    def _ask_drivers(self) -> None:
        drivers: Drivers | None = None
        told = ""
        while True:
            begun_s = time.monotonic()
            try:
                drivers = drivers or Drivers()
                self._devices = drivers.ask()
                told = ""
            except Exception as problem:  # noqa: BLE001  (drivers may answer anything)
                # What was known stays, with its age; the next answer may be a better one.
                if repr(problem) != told:
                    sys.stderr.write(f"GPUs and network cards: {traceback.format_exc()}")
                told = repr(problem)
            machine_s = self._intervals.machine_s
            if not self._pace.rest(begun_s, machine_s, max(machine_s, self._intervals.rare_s)):
                return


def _is_news(now: pb.EngineSample, before: pb.EngineSample | None) -> bool:
    """Return whether an engine is worth a word that was told like this before (None: never)."""
    if before is None:
        return True
    small = (
        abs(now.rss_bytes - before.rss_bytes) < _SMALL_BYTES
        and abs(now.gpu_memory_bytes - before.gpu_memory_bytes) < _SMALL_BYTES
        and abs(now.cpu_percent - before.cpu_percent) < _SMALL_PERCENT
    )
    same = (now.state, now.major_faults_per_s) == (before.state, before.major_faults_per_s)
    return not (small and same and now.collective == before.collective)
