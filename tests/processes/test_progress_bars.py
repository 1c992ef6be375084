"""Bars of tqdm, real ones, on real ranks: one bar of all of them, live and at the end."""

import pytest

from jupyter_dist.views.cell.cell_output import CellOutputView

from .listener import Listener
from .pages import Page, show

pytest.importorskip("tqdm", reason="tqdm is not installed")


@pytest.fixture
def shown(four):
    """Run a cell, and give the result and the lines that stay of it."""

    def run(code):
        result, page = show(four, code)
        return result, page.text.splitlines()

    return run


SLOW = """from tqdm import tqdm
import time
for _ in tqdm(range(500), desc="slow"):
    time.sleep(0.01 * (1 + rank))"""


@pytest.mark.parametrize(
    "make",
    [
        "from tqdm import tqdm\nbar = tqdm(range(20), desc='work')",
        "from tqdm import trange\nbar = trange(20, desc='work')",
        "from tqdm.auto import tqdm\nbar = tqdm(range(20), desc='work')",
        "from tqdm.auto import trange\nbar = trange(20, desc='work')",
        "from tqdm.notebook import tqdm\nbar = tqdm(range(20), desc='work')",
        "from tqdm.notebook import trange\nbar = trange(20, desc='work')",
        "from tqdm.autonotebook import tqdm\nbar = tqdm(range(20), desc='work')",
        "import tqdm\nbar = tqdm.tqdm(range(20), desc='work')",
        "import tqdm.auto\nclass Own(tqdm.auto.tqdm): pass\nbar = Own(range(20), desc='work')",
    ],
)
def test_a_bar_of_all_ranks_is_one_line_in_the_end(shown, make):
    result, lines = shown(f"{make}\nfor _ in bar:\n    pass")
    assert result.ok, [str(rank.error) for rank in result]
    assert len(lines) == 1
    assert lines[0] == "work [0-3] 100% ▕████████████████████▏ 20/20"
    assert [(rank.stdout, rank.stderr) for rank in result] == [("", "")] * 4


def test_a_running_bar_shows_the_slowest_and_the_fastest_rank(four, in_background):
    page = Page()
    view = CellOutputView(world_size=4, display=page)
    running = in_background(four.run, SLOW, watcher=view)
    page.wait_for("slow ", "slowest rank 3: ", "fastest rank 0: ", " left")
    assert not running.done()
    four.interrupt()
    view.finish(running.result(10))
    assert "rank 3 stopped at " in page.text
    assert "(interrupted)" in page.text


def test_states_of_a_bar_come_five_times_a_second_at_most_and_the_last_one_surely(
    four, in_background
):
    states = []

    class Counter(Listener):
        def on_output(self, ranks, outputs):
            states.extend(each.data for each in outputs if 0 in ranks and each.kind == "progress")

    code = "from tqdm import tqdm\nimport time\nfor _ in tqdm(range(100)):\n    time.sleep(0.02)"
    result = four.run(code, watcher=Counter())
    took_s = result[0].duration_s
    assert 3 <= len(states) <= took_s * 5 + 2
    assert (states[-1]["n"], states[-1]["is_closed"]) == (100, True)


def test_nested_bars_leave_the_outer_one(shown):
    code = """from tqdm import tqdm, trange
for _ in trange(2, desc="epoch"):
    for _ in tqdm(range(3), desc="batch", leave=False):
        pass"""
    _, lines = shown(code)
    assert [line.partition(" ")[0] for line in lines] == ["epoch"]


def test_a_total_that_nobody_knows_is_counted(shown):
    _, lines = shown("from tqdm import tqdm\nfor _ in tqdm(iter(range(7)), desc='unknown'): pass")
    assert lines[0] == "unknown [0-3] 7 it"


def test_bars_of_threads_stand_side_by_side(shown):
    code = """from concurrent.futures import ThreadPoolExecutor
from tqdm import tqdm
def work(number):
    for _ in tqdm(range(5), desc=f"thread {number}"):
        pass
with ThreadPoolExecutor(3) as pool:
    list(pool.map(work, range(3)))"""
    _, lines = shown(code)
    assert sorted(line.partition("]")[0] for line in lines) == [
        f"thread {number} [0-3" for number in range(3)
    ]


def test_a_bar_on_one_rank_alone_names_that_rank(shown):
    code = "from tqdm import tqdm\nfor _ in tqdm(range(3), desc='one', disable=rank != 2): pass"
    _, lines = shown(code)
    assert [line.partition("]")[0] for line in lines] == ["one [2"]


def test_a_rank_that_raises_leaves_its_bar_as_it_stood(shown):
    code = """from tqdm import tqdm
for step in tqdm(range(8), desc="bad"):
    if rank == 1 and step == 4:
        raise ValueError("no")"""
    result, lines = shown(code)
    assert [rank.status for rank in result] == ["ok", "raised", "ok", "ok"]
    assert "rank 1 stopped at 4 (raised)" in lines[0]
    _, lines = shown("import gc\n_ = gc.collect()\nprint('next')\nNone")
    assert lines == ["[0-3] next"]


def test_a_bar_may_go_on_in_the_next_cell(shown):
    _, lines = shown("from tqdm import tqdm\nbar = tqdm(total=10, desc='on')\n_ = bar.update(4)")
    assert "4/10" in lines[0]
    _, lines = shown("_ = bar.update(6)\nbar.close()")
    assert "10/10" in lines[0]


def test_what_tqdm_writes_is_lines_and_hand_made_bars_stay_one_line(shown):
    code = """from tqdm import tqdm
for step in tqdm(range(2), desc="bar"):
    tqdm.write(f"at {step}")
for step in range(5):
    print(f"\\rby hand {step}", end="")
print()"""
    _, lines = shown(code)
    assert lines[:3] == ["[0-3] at 0", "[0-3] at 1", "[0-3] by hand 4"]
    assert lines[3].startswith("bar [0-3] 100%")


def test_a_bar_for_a_file_of_ones_own_is_as_ever(shown):
    code = """import contextlib, io
from tqdm import tqdm
first, second = io.StringIO(), io.StringIO()
for _ in tqdm(range(3), file=first): pass
with contextlib.redirect_stderr(second):
    for _ in tqdm(range(3)): pass
["3/3" in file.getvalue() for file in (first, second)]"""
    _, lines = shown(code)
    assert lines == ["Out[0-3]: [True, True]"]


def test_a_bar_of_a_forked_child_is_text(shown):
    code = """import multiprocessing
from tqdm import tqdm
def work():
    for _ in tqdm(range(3), desc="child"): pass
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()"""
    result, _ = shown(code)
    assert all("child: 100%" in rank.stderr for rank in result)


def test_bars_of_pandas_are_ours_too(shown):
    pytest.importorskip("pandas")
    code = """import pandas
from tqdm import tqdm
tqdm.pandas(desc="rows")
_ = pandas.Series([1, 2, 3]).progress_apply(float)"""
    _, lines = shown(code)
    assert lines[0].startswith("rows [0-3] 100%")


def test_a_cell_that_is_read_again_shows_its_bar(four, shown):
    shown("from tqdm import tqdm\nfor _ in tqdm(range(9), desc='again'): pass")
    page = Page()
    view = CellOutputView(world_size=4, display=page)
    view.finish(four.replay().show(view))
    assert page.text.startswith("again [0-3] 100%")
    assert "9/9" in page.text
