import sys
import threading
from types import SimpleNamespace

import msgspec
import pytest
from fakes.recorded_nvml import RecordedNvml, read_record

from jupyter_dist.agent.host import telemetry as telemetry_module
from jupyter_dist.agent.host.telemetry import Telemetry, plan_looks
from jupyter_dist.model.hosts.topology import GpuView, NicView
from jupyter_dist.probe import nvml
from jupyter_dist.protocol import host_agent_pb2 as pb

PATIENCE_S = 20.0


def gpus_in(seen):
    return msgspec.msgpack.decode(seen.gpus or b"\x90", type=tuple[GpuView, ...])


def nics_in(seen):
    return msgspec.msgpack.decode(seen.nics or b"\x90", type=tuple[NicView, ...])


class Engines:
    """Counts how often it is looked at."""

    looks = 0
    gpu_memory = None

    def sample(self, gpu_memory):
        self.looks += 1
        self.gpu_memory = gpu_memory
        return [pb.EngineSample(engine="0", rss_bytes=self.looks)]


class SlowNvml(RecordedNvml):
    """A driver that does not answer while `is_free` is not set."""

    def __init__(self, record):
        super().__init__(record)
        self.is_free = threading.Event()
        self.is_asked = threading.Event()

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        self.is_asked.set()
        assert self.is_free.wait(PATIENCE_S)
        return self._answer("nvmlDeviceGetMemoryInfo", handle, ())


class Watcher:
    """What arrives, and the end."""

    def __init__(self, interval_s):
        self.told = []
        self._changed = threading.Condition()
        self.engines = Engines()
        self.telemetry = Telemetry(self.engines, self._tell, plan_looks(interval_s))

    def _tell(self, event):
        with self._changed:
            self.told.append(event.telemetry)
            self._changed.notify_all()

    def await_one(self, wanted):
        """Give the first sample for which that holds."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(map(wanted, self.told)), PATIENCE_S)
            return next(filter(wanted, self.told))


@pytest.fixture
def observe(monkeypatch):
    """Start to observe a machine with these GPUs; everything ends with the test."""
    before = set(threading.enumerate())
    watchers = []

    def begin(module, interval_s=0.2):
        monkeypatch.setitem(sys.modules, "pynvml", module)
        nvml.load.cache_clear()
        watchers.append(Watcher(interval_s))
        watchers[-1].telemetry.start()
        return watchers[-1]

    yield begin
    for watcher in watchers:
        watcher.telemetry.end()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    nvml.load.cache_clear()


def test_engines_machine_gpus_and_cards_are_told(observe):
    watcher = observe(RecordedNvml(read_record("hgx_h200")))
    told = watcher.await_one(gpus_in)
    assert [gpu.utilisation_percent for gpu in gpus_in(told)] == [97, 98, 96, 100, 97, 99, 98, 31]
    assert gpus_in(told)[3].power_w == 644.2
    assert told.memory_used_bytes > 0
    assert [engine.engine for engine in told.engines] == ["0"]
    assert nics_in(told)
    assert told.age_s >= 0
    assert watcher.engines.gpu_memory[3977] == 23 * 10**9, "a process of the record"


def test_a_machine_without_gpus_tells_the_rest(observe):
    told = observe(None).await_one(nics_in)
    assert (gpus_in(told), len(told.engines)) == ((), 1)


def test_a_driver_that_does_not_answer_delays_nothing_and_its_age_is_told(observe):
    driver = SlowNvml(read_record("hgx_h200"))
    watcher = observe(driver)
    assert driver.is_asked.wait(PATIENCE_S)
    waiting = watcher.await_one(lambda seen: seen.age_s > 0.5)
    assert gpus_in(waiting) == ()
    assert waiting.engines[0].rss_bytes >= 2, "engines were looked at meanwhile"
    driver.is_free.set()
    assert len(gpus_in(watcher.await_one(gpus_in))) == 8


def test_a_driver_that_stops_to_answer_leaves_its_last_words_and_their_age(observe):
    driver = SlowNvml(read_record("hgx_h200"))
    driver.is_free.set()
    watcher = observe(driver)
    watcher.await_one(gpus_in)
    driver.is_free.clear()
    old = watcher.await_one(lambda seen: gpus_in(seen) and seen.age_s > 0.7)
    assert gpus_in(old)[0].temperature_c == 58
    driver.is_free.set()


class OddNvml(RecordedNvml):
    """A driver that gives once, as the first GPU's power, what nobody can read."""

    is_odd = True

    def nvmlDeviceGetPowerUsage(self, handle):  # noqa: N802
        if self.is_odd:
            self.is_odd = False
            return "much"
        return self._answer("nvmlDeviceGetPowerUsage", handle, ())


def test_an_answer_that_cannot_be_read_ends_nothing_and_is_logged(observe, capfd):
    told = observe(OddNvml(read_record("hgx_h200"))).await_one(gpus_in)
    assert len(gpus_in(told)) == 8
    assert nics_in(told)
    assert capfd.readouterr().err.count("Traceback") == 1


@pytest.fixture
def clock(monkeypatch):
    """The time that a test says."""
    clock = SimpleNamespace(now_s=100.0)
    clock.monotonic = lambda: clock.now_s
    monkeypatch.setattr(telemetry_module, "time", clock)
    return clock


def test_engines_are_looked_at_each_time_and_the_machine_when_it_is_due(clock, monkeypatch):
    loads = iter(range(1, 100))
    load = telemetry_module.Load
    monkeypatch.setattr(telemetry_module, "sample_load", lambda: load(0.0, next(loads)))
    telemetry = Telemetry(Engines(), None, plan_looks(2.0))
    told = []
    for _ in range(9):
        told.append(telemetry.sample())
        clock.now_s += 0.5
    assert [seen.engines[0].rss_bytes for seen in told] == list(range(1, 10))
    assert [seen.memory_used_bytes for seen in told] == [2] * 4 + [3] * 4 + [4]


def test_the_age_is_that_of_the_oldest_number(clock):
    telemetry = Telemetry(Engines(), None, plan_looks(1.0))
    clock.now_s = 103.0
    assert telemetry.sample().age_s == 3.0, "nothing has come from drivers"
    telemetry._devices = telemetry._devices._replace(sampled_s=102.5)
    assert telemetry.sample().age_s == 0.5
    clock.now_s = 103.75
    assert telemetry.sample().age_s == 1.25


def test_an_engine_that_cannot_be_looked_at_ends_nothing_and_is_logged(observe, capfd, monkeypatch):
    watcher = observe(None)

    def damaged(gpu_memory):
        if watcher.engines.looks < 3:
            watcher.engines.looks += 1
            raise ValueError("a damaged record")
        return [pb.EngineSample(engine="0", rss_bytes=99)]

    monkeypatch.setattr(watcher.engines, "sample", damaged)
    watcher.await_one(lambda told: any(engine.rss_bytes == 99 for engine in told.engines))
    assert capfd.readouterr().err.count("a damaged record") == 2, "a traceback's two, told once"


class TestRarely:
    @pytest.fixture
    def watcher(self, clock):
        del clock
        watcher = Watcher(1.0)
        watcher.telemetry.obey(pb.Observe(is_close=False))
        return watcher

    def told(self, watcher, **sample):
        seen = pb.Telemetry(engines=[pb.EngineSample(engine="0", **sample)])
        return len(watcher.telemetry._choose(seen).engines)

    @pytest.mark.parametrize(
        ("change", "count"),
        [
            ({}, 0),
            ({"cpu_percent": 0.3}, 0),
            ({"cpu_percent": 30.0}, 1),
            ({"rss_bytes": (1 << 30) + 4096}, 0),
            ({"rss_bytes": (1 << 30) + (8 << 20)}, 1),
            ({"state": "T"}, 1),
            ({"collective": pb.Collective(sequence=9)}, 1),
        ],
    )
    def test_engines_are_told_that_have_changed(self, watcher, change, count):
        usual = {"rss_bytes": 1 << 30, "state": "S"}
        assert self.told(watcher, **usual) == 1, "it is new"
        assert self.told(watcher, **usual | change) == count

    def test_all_are_told_again_while_someone_looks_closely(self, watcher):
        self.told(watcher, state="S")
        watcher.telemetry.obey(pb.Observe(is_close=True))
        assert self.told(watcher, state="S") == 1


def test_who_is_asked_to_look_closely_looks_at_once(observe):
    watcher = observe(None)
    watcher.await_one(lambda told: told.engines)
    watcher.telemetry.obey(pb.Observe(is_close=False))
    looks = watcher.engines.looks
    watcher.telemetry.obey(pb.Observe(is_close=True))
    watcher.await_one(lambda told: any(each.rss_bytes > looks + 1 for each in told.engines))
