import msgspec
import pytest

from jupyter_dist.engine.profiling.chrome_trace import read_changes, read_samples
from jupyter_dist.model.ranks.stack_reading import Call

MAIN, OTHER = 7, 8
CELL = Call("/cells/In_3.py", 4, "step")
GEMM = Call("/lib/libblas.so", 0, "dgemm")


def event(ph, ts, call, thread=MAIN):
    place = {"filename": call.file, "line": call.line}
    return {"ph": ph, "ts": ts, "name": call.function, "tid": thread, "pid": 1, "args": place}


def changes(*events):
    return list(read_changes(msgspec.json.encode(events), MAIN))


TRACE = (
    event("B", 20_000, CELL),
    event("B", 20_001, CELL, OTHER),
    event("B", 60_000, GEMM),
    event("E", 100_000, GEMM),
    event("E", 100_000, CELL),
)


def test_a_change_tells_the_calls_from_then_on_the_innermost_first():
    assert changes(*TRACE) == [(20_000, (CELL,)), (60_000, (GEMM, CELL)), (100_000, ())]


def test_looks_that_saw_no_change_are_there_too():
    found = read_samples(iter(changes(*TRACE)), (0, 200_000), 20_000)
    assert found.times_us == [20_000, 40_000, 60_000, 80_000]
    assert [found.stacks[number] for number in found.samples] == [
        (CELL,),
        (CELL,),
        (GEMM, CELL),
        (GEMM, CELL),
    ]


def test_looks_outside_of_the_profile_are_left_out():
    found = read_samples(iter(changes(*TRACE)), (30_000, 60_000), 20_000)
    assert found.times_us == [40_000, 60_000]


def test_what_has_no_name_is_called_by_its_library_once():
    unnamed = [Call("/lib/libc.so.6", 0, address) for address in ("0x7f01", "0x7f02")]
    (_, calls), _ = changes(*(event("B", 1, call) for call in unnamed), event("E", 2, unnamed[1]))
    assert calls == (Call("/lib/libc.so.6", 0, "libc.so.6"),)


def test_events_of_other_kinds_say_nothing_of_calls():
    name = {"ph": "M", "name": "thread_name", "tid": MAIN, "args": {"name": "MainThread"}}
    assert changes(name) == []
    assert list(read_changes(b"", MAIN)) == []


def test_a_trace_that_is_cut_is_an_error():
    with pytest.raises(msgspec.DecodeError):
        list(read_changes(b'[{"ph": "B"', MAIN))
