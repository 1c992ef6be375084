"""tqdm's own code, taught in a copy, so that other tests keep the real one."""

import contextlib
import functools
import gc
import importlib.util
import io
import os
import sys

import pytest

from jupyter_dist.engine.output import tqdm_bars
from jupyter_dist.engine.output.bar_collector import BarCollector


class Stream(io.StringIO):
    """A stream that leads to a descriptor, as a rank's own do."""

    def __init__(self, descriptor):
        super().__init__()
        self._descriptor = descriptor

    def fileno(self):
        return self._descriptor


@pytest.fixture
def stderr():
    return Stream(2)


def on_a_rank(test):
    """Run a test with `stderr` in place (what a fixture puts there pytest takes away again)."""

    @functools.wraps(test)
    def run(stderr, **fixtures):
        with contextlib.redirect_stderr(stderr):
            test(stderr=stderr, **fixtures)

    return run


@pytest.fixture
def bars():
    return BarCollector()


def a_copy_of(name):
    spec = importlib.util.find_spec(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tqdm(bars):
    pytest.importorskip("tqdm")
    module = a_copy_of("tqdm.std")
    tqdm_bars._teach(module, bars)
    return module.tqdm


def last_states(bars):
    return [output.data for output in bars.take(0.0, is_final=True)]


def last_state(bars):
    (state,) = last_states(bars)
    return state


def go_through(bar):
    for _ in bar:
        pass


@on_a_rank
def test_a_loop_is_told_in_numbers_and_writes_nothing(tqdm, bars, stderr):
    go_through(tqdm(range(5), desc="work", unit="step"))
    state = last_state(bars)
    assert (state["description"], state["n"], state["total"]) == ("work", 5, 5)
    assert (state["unit"], state["is_closed"]) == ("step", True)
    assert "vanishes" not in state
    assert stderr.getvalue() == ""


@on_a_rank
def test_the_place_is_the_line_that_made_the_bar(tqdm, bars, stderr):
    line = sys._getframe().f_lineno + 1
    tqdm(total=3).close()
    state = last_state(bars)
    assert state["place"] == f"output/test_tqdm_bars.py:{line}"


@on_a_rank
def test_the_place_of_a_bar_in_a_cell_is_the_same_on_all_hosts(tqdm, bars, stderr):
    for folder in ("/dev/shm/a", "/tmp/b"):
        code = compile("\ntqdm(total=1).close()", f"{folder}/In_7_0f0f0f0f.py", "exec")
        exec(code, {"tqdm": tqdm, "__name__": "__main__"})
    assert [state["place"] for state in last_states(bars)] == ["In_7_0f0f0f0f:2"] * 2


@pytest.mark.parametrize(
    ("outer", "inner"), [({}, {"leave": False}), ({"leave": None}, {"leave": None})]
)
@on_a_rank
def test_nested_bars_and_those_that_do_not_stay(tqdm, bars, stderr, outer, inner):
    for _ in tqdm(range(2), desc="outer", **outer):
        go_through(tqdm(range(3), desc="inner", **inner))
    states = last_states(bars)
    assert [state["description"] for state in states] == ["outer", "inner", "inner"]
    assert [state.get("vanishes", False) for state in states] == [False, True, True]


@pytest.mark.parametrize("options", [{"disable": True}, {"delay": 60}])
@on_a_rank
def test_a_bar_that_is_disabled_or_waits_for_its_delay_in_vain_is_none(tqdm, bars, stderr, options):
    assert list(tqdm(range(3), **options)) == [0, 1, 2]
    assert last_states(bars) == []
    assert stderr.getvalue() == ""


@pytest.mark.parametrize("by_position", [True, False])
@on_a_rank
def test_a_bar_for_another_file_is_left_alone(tqdm, bars, by_position, stderr):
    file = io.StringIO()
    arguments = (range(3), "mine", None, True, file) if by_position else (range(3),)
    options = {} if by_position else {"file": file, "desc": "mine"}
    assert list(tqdm(*arguments, **options)) == [0, 1, 2]
    assert last_states(bars) == []
    assert "mine: 100%" in file.getvalue()


@on_a_rank
def test_a_bar_that_is_told_to_write_to_stderr_is_ours_too(tqdm, bars, stderr):
    tqdm(range(3), "by position", None, True, stderr).close()
    tqdm(range(3), file=stderr).close()
    assert [state["description"] for state in last_states(bars)] == ["by position", ""]


@on_a_rank
def test_a_bar_in_a_forked_child_writes_as_ever(tqdm, bars, stderr, monkeypatch):
    parent_pid = os.getpid()
    monkeypatch.setattr(tqdm_bars.os, "getpid", lambda: parent_pid + 1)
    go_through(tqdm(range(3)))
    assert last_states(bars) == []
    assert "3/3" in stderr.getvalue()


@on_a_rank
def test_a_bar_may_be_moved_by_hand_and_renamed(tqdm, bars, stderr):
    bar = tqdm(total=10, initial=2, unit="B", unit_scale=True, unit_divisor=1024)
    bar.update(3)
    bar.set_description("now")
    bar.set_postfix(loss=0.25)
    state = last_state(bars)
    assert (state["n"], state["initial"], state["divisor"]) == (5, 2, 1024)
    assert (state["description"], state["postfix"]) == ("now", "loss=0.25")
    bar.close()


@on_a_rank
def test_a_bar_whose_loop_was_left_stands_where_it_was(tqdm, bars, stderr):
    for index in tqdm(range(8), desc="left"):
        if index == 4:
            break
    gc.collect()
    state = last_state(bars)
    assert (state["n"], state["total"]) == (4, 8)


@on_a_rank
def test_each_step_is_counted_at_once(tqdm, bars, stderr):
    steps = iter(tqdm(range(1000), mininterval=60))
    for _ in range(18):
        next(steps)
    assert [state["n"] for state in last_states(bars)] == [17]  # the 18th is not done yet


@pytest.mark.parametrize(("interval_s", "shown"), [(0, ("loss=1", 500)), (3600, (None, 1000))])
@on_a_rank
def test_words_that_wait_are_shown_as_often_as_the_bar_is_to_be(
    tqdm, bars, stderr, interval_s, shown
):
    bar = tqdm(range(1000), mininterval=interval_s)
    steps = iter(bar)
    for _ in range(3):
        bar.set_postfix(loss=next(steps), refresh=False)
        bar.total = 500
    state = last_state(bars)
    assert (state.get("postfix"), state["total"]) == shown


@on_a_rank
def test_a_number_of_very_many_digits_is_told_roughly(tqdm, bars, stderr):
    bar = tqdm(total=26**20)
    bar.update(2**64)
    state = last_state(bars)
    assert [(type(state[name]), state[name]) for name in ("n", "total")] == [
        (float, float(2**64)), (float, float(26**20)),
    ]  # fmt: skip
    bar.close()


@on_a_rank
def test_a_total_beyond_all_floats_is_one_that_nobody_knows(tqdm, bars, stderr):
    bar = tqdm(iter(()), total=10**400, mininterval=3600)
    state = last_state(bars)
    assert state["total"] is None
    bar.close()


@on_a_rank
def test_a_total_that_nobody_knows_is_none(tqdm, bars, stderr):
    go_through(tqdm(iter(range(3))))
    assert last_state(bars)["total"] is None


@on_a_rank
def test_words_that_tqdm_writes_are_lines(tqdm, bars, stderr):
    stdout = Stream(1)
    with contextlib.redirect_stdout(stdout):
        for index in tqdm(range(2)):
            tqdm.write(f"at {index}")
    assert stdout.getvalue() == "at 0\nat 1\n"


@on_a_rank
def test_notebook_bars_become_plain_ones(stderr, bars, monkeypatch):
    std = a_copy_of("tqdm.std")
    tqdm_bars._teach(std, bars)
    monkeypatch.setitem(sys.modules, "tqdm.std", std)
    notebook = a_copy_of("tqdm.notebook")
    tqdm_bars._replace_notebook_bars(notebook)
    go_through(notebook.tqdm(range(2), desc="widget", display=True, colour="red"))
    go_through(notebook.trange(3))
    assert [(state["description"], state["n"]) for state in last_states(bars)] == [
        ("widget", 2), ("", 3),
    ]  # fmt: skip


@on_a_rank
@pytest.mark.parametrize("start", ["x", None, float("nan"), float("inf")])
def test_a_bar_whose_time_is_no_time_is_looked_at_all_the_same(tqdm, bars, stderr, start):
    bar = tqdm(total=3)
    bar.n, bar.start_t = 2, start
    state = last_state(bars)
    bar.start_t = 0.0  # tqdm itself would raise at the bar's end
    assert (state["n"], state["elapsed_s"]) == (2, 0.0)


@on_a_rank
@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_bar_of_a_class_that_raises_does_not_end_the_thread_that_looks(tqdm, bars, stderr, error):
    class Shy(tqdm):
        is_shy = False

        def __getattribute__(self, name):
            if name == "n" and type(self).is_shy:
                raise error
            return super().__getattribute__(name)

    bar = Shy(total=3)
    Shy.is_shy = True
    state = last_state(bars)
    Shy.is_shy = False
    assert state["n"] == 0
    bar.close()
