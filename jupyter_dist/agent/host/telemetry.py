"""What an agent observes of its host and its engines, and how often it tells.

Two threads: one looks at engines, cores and memory and tells of all; the other one asks what may
keep it waiting, drivers above all. Whatever that one last found is told again, with its age.
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
from jupyter_dist.probe.gpu_processes import descends_from
from jupyter_dist.probe.gpus import GpuWatch, gpu_addresses
from jupyter_dist.probe.machine import Load, sample_load
from jupyter_dist.probe.nics import NicWatch
from jupyter_dist.protocol import host_agent_pb2 as pb

LOOK_INTERVAL_S = 0.5
"""How often engines are looked at, at least: verdicts on hangs depend on it."""


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


class Telemetry:
    """Tells until `over` is set; `interval_s` is for everything but the engines."""

    def __init__(
        self,
        engines: EngineTable,
        tell: Callable[[pb.AgentEvent], None],
        interval_s: float,
        over: threading.Event,
    ) -> None:
        self._engines = engines
        self._tell = tell
        self._interval_s = interval_s
        self._over = over
        self._devices = Devices(b"", b"", {}, time.monotonic())
        self._load: Load = sample_load()
        self._load_s = 0.0

    def start(self) -> None:
        """Begin to observe."""
        for work, name in ((self._tell_of_all, "telemetry"), (self._ask_drivers, "devices")):
            threading.Thread(target=work, name=name, daemon=True).start()

    def _tell_of_all(self) -> None:
        # A part of the interval, so that the machine's turn comes when it is due.
        period_s = self._interval_s / math.ceil(self._interval_s / LOOK_INTERVAL_S)
        told = ""
        while not self._over.wait(period_s):
            try:
                self._tell(pb.AgentEvent(telemetry=self.sample()))
                told = ""
            except Exception as problem:  # noqa: BLE001  (ranks may write anything where we read)
                if repr(problem) != told:
                    sys.stderr.write(f"telemetry: {traceback.format_exc()}")
                told = repr(problem)

    def sample(self) -> pb.Telemetry:
        """Observe engines, and the machine if it is time; with what drivers told last."""
        now_s = time.monotonic()
        if now_s - self._load_s >= self._interval_s:
            self._load, self._load_s = sample_load(), now_s
        devices = self._devices
        return pb.Telemetry(
            cpu_percent=self._load.cpu_percent,
            memory_used_bytes=self._load.memory_used_bytes,
            engines=self._engines.sample(devices.memory),
            gpus=devices.gpus,
            nics=devices.nics,
            age_s=now_s - min(self._load_s, devices.sampled_s),
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
            if self._over.wait(max(0.0, begun_s + self._interval_s - time.monotonic())):
                return
