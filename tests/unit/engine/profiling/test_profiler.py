import sys
from types import SimpleNamespace

import pytest

from jupyter_dist.engine.profiling import profiler as module
from jupyter_dist.engine.profiling.native_allocations import NativeAllocationWatch
from jupyter_dist.engine.profiling.profiler import Profiler
from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.profiles import ProfileBegun, RankProfile
from jupyter_dist.protocol.messages import BeginProfile, EndProfile, NoAnswer


@pytest.fixture
def profiler():
    profiler = Profiler(SimpleNamespace(name_cell=lambda _file: "", current_cell=""))
    yield profiler
    if profiler._noting is not None:
        profiler._stop()


def begin(profiler, name="a", kind="sampling", most_s=60.0, is_native=False):
    return profiler.begin(BeginProfile(name, kind, most_s, is_native))


@pytest.mark.parametrize("kind", ["sampling", "memory"])
def test_a_profile_has_its_time(profiler, kind):
    begun = begin(profiler, kind=kind)
    found = profiler.end(EndProfile("a"))
    assert isinstance(begun, ProfileBegun)
    assert found.kind == kind
    assert begun.began_ns <= found.began_ns <= found.ended_ns


def test_there_is_one_profile_at_a_time(profiler):
    begin(profiler)
    assert isinstance(begin(profiler, "b"), NoAnswer)
    assert isinstance(profiler.end(EndProfile("b")), NoAnswer)
    assert isinstance(profiler.end(EndProfile("a")), RankProfile)
    assert isinstance(begin(profiler, "b"), ProfileBegun)


def test_it_is_told_once(profiler):
    begin(profiler)
    profiler.end(EndProfile("a"))
    assert isinstance(profiler.end(EndProfile("a")), NoAnswer)


def test_one_that_is_left_alone_ends_and_what_it_saw_is_kept(profiler):
    begin(profiler, most_s=0.0)
    profiler._expiry.join(10)
    assert isinstance(profiler.end(EndProfile("a")), RankProfile)


def test_the_next_one_may_begin_after_one_that_was_left_alone(profiler):
    begin(profiler, most_s=0.0)
    profiler._expiry.join(10)
    assert isinstance(begin(profiler, "b"), ProfileBegun)
    assert isinstance(profiler.end(EndProfile("a")), NoAnswer)


@pytest.mark.parametrize("kind", ["jax", "torch"])
def test_a_framework_that_no_cell_has_imported_is_named(profiler, kind, monkeypatch):
    monkeypatch.delitem(sys.modules, kind, raising=False)
    found = begin(profiler, kind=kind)
    assert isinstance(found, NoAnswer)
    assert kind in found.reason
    assert isinstance(begin(profiler), ProfileBegun), "nothing runs"


def test_no_profile_lasts_longer_than_an_hour(profiler):
    begin(profiler, most_s=1e9)
    assert profiler._expiry.interval == module.MOST_PROFILE_S


@pytest.mark.parametrize(
    ("kind", "place", "name"),
    [
        ("sampling", "native_samples", "NativeSamples"),
        ("memory", "native_allocations", "NativeAllocationWatch"),
    ],
)
def test_where_native_code_cannot_be_seen_python_is_and_why_is_said(
    profiler, monkeypatch, kind, place, name
):
    def refuse(*_given):
        raise UsageError("it may not look")

    monkeypatch.setattr(f"jupyter_dist.engine.profiling.{place}.{name}", refuse)
    begin(profiler, kind=kind, is_native=True)
    found = profiler.end(EndProfile("a"))
    assert (found.kind, found.note) == (kind, "it may not look; what C and C++ do is not seen")


def test_without_memray_that_is_the_reason(monkeypatch):
    monkeypatch.setitem(sys.modules, "memray", None)
    with pytest.raises(UsageError, match="memray is not installed"):
        NativeAllocationWatch()
