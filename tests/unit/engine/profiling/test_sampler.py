import sys
import threading

import pytest

from jupyter_dist.engine.profiling import sampler as module
from jupyter_dist.engine.profiling.sampler import Sampler


def code_of(count):
    return [compile("0", f"file{number}", "exec") for number in range(count)]


def looking(seen, most_s=60.0):
    """A sampler that sees these stacks one after the other, looking only when it is told."""
    stacks = iter(seen)
    return Sampler(0, most_s, lambda _ident: next(stacks))


def test_equal_stacks_are_kept_once_and_every_look_has_its_time():
    (code,) = code_of(1)
    a, b = ((code, 1),), ((code, 2),)
    sampler = looking([a, b, a])
    for _ in range(3):
        sampler.look()
    assert (sampler.samples, sampler.stacks) == ([0, 1, 0], [a, b])
    assert sampler.times_us == sorted(sampler.times_us)


def test_the_number_of_samples_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "MOST_SAMPLES", 100)
    sampler = looking([()] * 1000)
    for _ in range(1000):
        sampler.look()
    assert 50 <= len(sampler.samples) < 100
    assert len(sampler.samples) == len(sampler.times_us)


def test_of_stacks_beyond_the_bound_the_outer_calls_are_kept(monkeypatch):
    monkeypatch.setattr(module, "MOST_STACKS", 2)
    outer = [(code, 1) for code in code_of(60)]
    seen = [((code, 9), *outer) for code in code_of(5)]
    sampler = looking(seen)
    for _ in seen:
        sampler.look()
    assert len(sampler.stacks) == 3
    assert sampler.stacks[-1] == tuple(outer[-40:])


def test_costly_looks_become_rarer(monkeypatch):
    times = iter(range(10_000_000, 10_000_000_000, 10_000_000))
    monkeypatch.setattr(module, "thread_time_ns", lambda: next(times))
    sampler = looking([()] * 100)
    before_s = sampler._period_s
    for _ in range(100):
        sampler.look()
    assert sampler._period_s > before_s


def test_a_real_thread_is_seen_at_the_line_that_it_is_at():
    go, seen = threading.Event(), threading.Event()

    def wait_here():
        seen.set()
        go.wait()

    thread = threading.Thread(target=wait_here)
    thread.start()
    seen.wait()
    sampler = Sampler(thread.ident, 60.0)
    sampler.look()
    go.set()
    thread.join()
    (stack,) = sampler.stacks
    assert "wait_here" in [code.co_name for code, _ in stack]


def test_it_ends_by_itself_after_its_time():
    sampler = Sampler(threading.main_thread().ident, 0.0)
    sampler.start()
    sampler._thread.join(10)
    assert sampler.is_over
    sampler.end()


def test_a_thread_that_is_gone_is_seen_as_nothing():
    sampler = Sampler(1, 60.0)
    sampler.look()
    assert sampler.stacks == [()]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.active_count()
    yield
    assert threading.active_count() == before
    assert sys.getswitchinterval() == pytest.approx(0.005)
