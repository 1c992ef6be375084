from types import SimpleNamespace

import numpy as np
import pytest

from jupyter_dist.engine import benchmark
from jupyter_dist.engine.benchmark import DeviceMemory, make_patterns, measure
from jupyter_dist.model.bench.bench_plan import DTYPES
from jupyter_dist.model.bench.measurements import PROGRESS_MIME
from jupyter_dist.options.bench_options import plan_bench


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2, 40, 700])
def test_sums_of_the_patterns_are_exact_in_every_type_and_order(dtype, size):
    *own, total = make_patterns(size, np.dtype(dtype))
    assert total.dtype == dtype
    for order in (own, own[::-1]):
        found = order[0].copy()
        for pattern in order[1:]:
            found += pattern
        assert np.array_equal(found, total)


def test_ranks_have_different_patterns_and_a_shifted_one_is_seen():
    own = make_patterns(8, np.dtype("float32"))[:-1]
    for rank, pattern in enumerate(own):
        assert set(pattern.tolist()) == {0, 1, 2, 3, 4, 5, 6}
        others = [*own[:rank], *own[rank + 1 :], *(np.roll(pattern, shift) for shift in (1, 7, 64))]
        assert all(np.mean(pattern == other) < 0.2 for other in others)


class Alone:
    """A communicator of one rank, which copies."""

    rank, size, kind = 0, 1, "ring"
    timeout_s = 1800.0

    def __init__(self):
        self.deadlines = set()
        self.calls = []

    def all_reduce(self, array, op="sum", out=None):
        self.deadlines.add(self.timeout_s)
        self.calls.append("all_reduce")
        if out is None:
            return array.copy()
        np.copyto(out, array)
        return out

    def broadcast(self, array, root=0, out=None):
        return array

    def barrier(self):
        self.calls.append("barrier")


@pytest.fixture
def shown(monkeypatch):
    """Everything displayed; the clock ticks by 1 ms."""
    shown = []
    ticks = iter(range(10**6))
    monkeypatch.setattr(benchmark, "perf_counter", lambda: next(ticks) / 1e3)
    return shown


def bench(comm, shown, **wishes):
    plan = plan_bench(**{"ops": "all_reduce", "max_bytes": 64, **wishes})
    return measure(comm, plan, shown.append)


def test_each_point_is_announced_and_all_are_reported_in_the_end(shown):
    report = bench(Alone(), shown)
    assert [bundle[PROGRESS_MIME]["nbytes"] for bundle in shown] == [8, 64]
    assert shown[0]["text/plain"] == "all_reduce 8 B …"
    assert [(point.op, point.nbytes, point.wrong) for point in report.points] == [
        ("all_reduce", 8, 0),
        ("all_reduce", 64, 0),
    ]
    assert report.versions.keys() == {"python", "jupyter-dist", "numpy"}


def test_fast_calls_are_repeated_a_hundred_times_and_slow_ones_three(shown, monkeypatch):
    assert [point.iterations for point in bench(Alone(), shown).points] == [100, 100]
    minutes = iter(range(0, 10**6, 60))
    monkeypatch.setattr(benchmark, "perf_counter", lambda: next(minutes))
    comm = Alone()
    (point,) = bench(comm, shown, max_bytes=8).points
    assert (point.iterations, point.median_s) == (3, 60)
    # Once to connect, once to see how long it takes; then in a row; last the times themselves.
    timed = ["barrier", *["all_reduce"] * 3, "barrier"]
    assert comm.calls == ["all_reduce", "barrier", "all_reduce", "barrier", *timed, "all_reduce"]


def test_a_rank_that_hears_nonsense_or_gets_nothing_stays_in_bounds(shown, monkeypatch):
    monkeypatch.setattr(Alone, "broadcast", lambda _self, array, **_: array * 0 - 7)
    monkeypatch.setattr(Alone, "all_reduce", lambda _self, array, **_: array)
    (point,) = bench(Alone(), shown, max_bytes=8).points
    assert (point.iterations, point.wrong) == (3, 2)


@pytest.mark.parametrize("check", [True, False])
def test_wrong_elements_are_counted_unless_nobody_wants_to_know(shown, monkeypatch, check):
    def wrong(_self, array, op="sum", out=None):
        if out is not None:
            np.copyto(out, array)
            out[:2] += 1
        return array

    monkeypatch.setattr(Alone, "all_reduce", wrong)
    report = bench(Alone(), shown, max_bytes="4K", check=check)
    wrongs = [point.wrong for point in report.points]
    assert wrongs == ([2] * 4 if check else [None] * 4)


def test_the_deadline_is_that_of_the_plan_and_then_the_usual_one_again(shown, monkeypatch):
    comm = Alone()
    bench(comm, shown, timeout_s=7.5)
    assert (comm.deadlines, comm.timeout_s) == ({7.5}, 1800.0)
    monkeypatch.setattr(Alone, "barrier", lambda _self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bench(comm, shown)
    assert comm.timeout_s == 1800.0


class Event:
    """A mark on a stream: it is at the time that the stream has when it is recorded."""

    def __init__(self, stream):
        self._stream = stream

    def record(self):
        self.ms = self._stream.ms

    def synchronize(self):
        self._stream.is_done = True


def test_calls_on_a_device_are_timed_by_the_device(monkeypatch):
    stream = SimpleNamespace(ms=0.0, is_done=False)

    def elapsed_ms(first, last):
        assert stream.is_done
        return last.ms - first.ms

    def call():
        stream.ms += 1.0 if stream.ms else 5.0

    cuda = SimpleNamespace(Event=lambda: Event(stream), get_elapsed_time=elapsed_ms)
    memory = DeviceMemory()
    monkeypatch.setitem(vars(memory), "library", SimpleNamespace(cuda=cuda))
    assert memory.time(call, 3) == [0.005, 0.001, 0.001]
