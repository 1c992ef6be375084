import tracemalloc

import pytest

from jupyter_dist.engine.profiling.allocations import AllocationWatch

CELL = "/cells/In_4_0a1b2c3d.py"
NAMES = {CELL: "In[4]"}


def hold(count):
    names = {}
    exec(compile(f"\nheld = bytes({count})", CELL, "exec"), names)
    return names["held"]


@pytest.fixture(autouse=True)
def traces_as_before():
    assert not tracemalloc.is_tracing()
    yield
    assert not tracemalloc.is_tracing()


def test_the_line_that_holds_most_comes_first():
    watch = AllocationWatch()
    kept = hold(3_000_000)
    held, (first, *_) = watch.end(lambda file: NAMES.get(file, ""))
    assert (first.site, first.count) == ("In[4]:2", 1)
    assert held >= first.nbytes >= len(kept)


def test_what_was_given_back_is_not_counted():
    watch = AllocationWatch()
    hold(3_000_000)
    _, largest = watch.end(lambda file: NAMES.get(file, ""))
    assert all(each.nbytes < 1_000_000 for each in largest)


def test_tracing_of_a_user_goes_on_and_what_was_there_before_is_left_out():
    tracemalloc.start()
    try:
        before = hold(3_000_000)
        watch = AllocationWatch()
        held, _ = watch.end(lambda file: NAMES.get(file, ""))
        assert held < len(before)
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
