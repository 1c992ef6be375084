"""Cells that run while their program goes on."""

import asyncio
import threading

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import CellInterrupted, CellRefused, ClusterGone, RankRaised, UsageError

from .leftovers import wait_until

UNTIL = "import os, time\nwhile not os.path.exists({path!r}): time.sleep(0.01)\n"


@pytest.fixture
def released(tmp_path):
    """Code that waits until the second one, a function, is called."""
    path = tmp_path / "go_on"
    return UNTIL.format(path=str(path)), path.touch


class Seen:
    """Notes what a watcher is told, and on which thread the end is."""

    def __init__(self):
        self.said = []
        self.ends = []

    def on_output(self, ranks, outputs):
        self.said += [output.text for output in outputs]

    def on_finished(self, result):
        pass

    def on_note(self, text):
        pass

    def on_tick(self):
        pass

    def finish(self, result):
        self.ends.append(result)

    def show_again(self):
        self.ends.append(threading.current_thread() is threading.main_thread())


def test_cells_run_in_the_order_in_which_they_were_begun(four, released):
    wait, go_on = released
    seen = Seen()
    first = four.run_in_background(f"print('begun', rank)\n{wait}order = [1]", watcher=seen)
    second = four.run_in_background("order.append(2); rank + 0.5", label=8)
    wait_until(lambda: len(seen.said) == 4, 10, "what ranks say is seen meanwhile")
    assert first.result is second.result is None
    assert not first.is_done
    with pytest.raises(TimeoutError, match=r"In\[1\]"):
        first.wait(0.05)
    third = four.run_in_background("order")
    go_on()
    assert [rank.value for rank in third.wait(10)] == [[1, 2]] * 4
    assert second.result[2].value == 2.5
    assert first.wait().ok
    assert seen.ends == [first.result, True]
    assert "ok on ranks 0-3" in repr(first)
    assert four.run("len(order)")[0].value == 2


def test_a_cell_of_the_foreground_waits_for_those_of_the_background(four, released, in_background):
    wait, go_on = released
    four.run_in_background(f"{wait}came = 'first'")
    asked = in_background(four.run, "came")
    go_on()
    assert asked.result(10)[3].value == "first"


@pytest.mark.parametrize("has_begun", [True, False])
def test_one_that_is_cancelled_is_interrupted_or_taken_back(four, released, has_begun):
    wait, go_on = released
    before = [] if has_begun else [four.run_in_background(wait)]
    cell = four.run_in_background("began = True\nimport time\ntime.sleep(60)")
    cell.cancel()
    cell.cancel()
    error = CellInterrupted if has_begun else CellRefused
    with pytest.raises(error, match="interrupted"):
        cell.wait(10)
    go_on()
    for other in before:
        assert other.wait(10).ok
    began = four.run("'began' in globals()")
    assert {rank.value for rank in began} == {has_begun}
    four.run("globals().pop('began', None)")
    cell.cancel()


def test_what_goes_wrong_is_raised_where_it_is_waited_for(four):
    cell = four.run_in_background("if rank == 2: 1/0")
    with pytest.raises(RankRaised, match="rank 2"):
        cell.wait(10)
    assert cell.result[2].status == "raised"
    with pytest.raises(SyntaxError):
        four.run_in_background("1 +")
    with pytest.raises(UsageError):
        four.run_in_background("1", ranks=9)


def test_it_can_be_awaited(four):
    async def both():
        cells = [four.run_in_background(f"rank + {number}") for number in (1, 2)]
        return [(await cell)[0].value_repr for cell in cells]

    assert asyncio.run(both()) == ["1", "2"]


def test_a_cluster_that_stops_ends_the_waiting(start):
    cluster = start("localhost:1")
    cell = cluster.run_in_background("import time\ntime.sleep(60)")
    queued = cluster.run_in_background("1")
    cluster.stop()
    for each in (cell, queued):
        with pytest.raises(ClusterGone):
            each.wait(20)
        with pytest.raises(ClusterGone):
            each.result  # noqa: B018


def test_it_goes_on_when_its_program_has_ended(driver, start, tmp_path):
    cluster = start("localhost:1", name="goes-on")
    cluster.detach()
    done = tmp_path / "done"
    code = f"import time, pathlib; time.sleep(1); pathlib.Path({str(done)!r}).touch()"
    assert driver.do("cluster = Cluster.attach('goes-on')") == "ok"
    assert driver.do(f"cell = cluster.run_in_background({code!r})") == "ok"
    driver.tell("raise SystemExit")
    wait_until(done.exists, 15, "the cell has gone on to its end")
    Cluster.attach("goes-on").stop()
