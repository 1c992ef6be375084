"""The widget's requests and its rank panel in a real JupyterLab, while real ranks compute."""

import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.patience import Stopwatch

from .lab import WIDGET, LabNotebook, a_notebook, wait_until_all_are

pytestmark = pytest.mark.browser

OpenNotebook = Callable[..., LabNotebook]
LOAD, START = "%load_ext jupyter_dist", "%dist_start -n 4"
PANEL = f"{WIDGET} .jd-rank-panel"
TRAIN = """%%spmd
import time
import numpy as np
weights = np.ones((300, 300))
for step in range(3):
    total = comm.all_reduce(weights)
print("epoch", rank)
def train():
    while True:
        sum(range(1000))
train()"""
TELL_SIGNALS = """%%spmd
import time
try:
    print("at work")
    while True:
        sum(range(1000))
except KeyboardInterrupt:
    print(f"signal at {time.time()}")"""
LOSE_A_RANK = """%%spmd
import os, signal
kept = 10 * rank
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)"""
CLICKS = 5
# Notes what the kernel says of itself from now on.
FOLLOW_KERNEL = """() => {
  window.statuses = [];
  window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.iopubMessage.connect(
    (_, { header, content }) => header.msg_type === 'status'
      && window.statuses.push(content.execution_state));
}"""
# Clicks at once, so that only the way from the page to the ranks is measured.
CLICK = """selector => {
  const at = Date.now() / 1000;
  document.querySelector(selector).click();
  return at;
}"""


@pytest.fixture
def started(open_notebook: OpenNotebook) -> Callable[..., LabNotebook]:
    """Open a notebook with these cells behind the first two, which have run."""

    def open_started(name: str, *cells: str) -> LabNotebook:
        notebook = open_notebook(a_notebook(LOAD, START, *cells), name, ran=2)
        wait_until_all_are("idle", notebook.page)
        return notebook

    return open_started


def say_of_request(page: Any, words: str) -> str:
    """Wait until the newest request's line has these words; give the line."""
    line = page.locator(f"{WIDGET} .jd-request:first-child .jd-request-words", has_text=words)
    line.wait_for()
    return str(line.inner_text())


def read_parts(page: Any) -> dict[str, str]:
    """Wait until the open panel has all its parts; give their texts."""
    page.wait_for_function(
        """selector => {
          const texts = [...document.querySelectorAll(selector + ' pre')].map(n => n.textContent);
          return texts.length === 4 && !texts.includes('reading…');
        }""",
        arg=PANEL,
    )
    titles = page.locator(f"{PANEL} h4").all_inner_texts()
    return dict(zip(titles, page.locator(f"{PANEL} pre").all_inner_texts(), strict=True))


def read_answered_parts(page: Any) -> dict[str, str]:
    """Give the texts of all parts; a rank that has no core in time is asked again, as people do."""
    for _ in range(5):
        parts = read_parts(page)
        if not any(text.startswith("not known: no answer") for text in parts.values()):
            break
        page.click(f"{PANEL} .jd-refresh")
        page.locator(f"{PANEL} .jd-panel-when", has_text="as of").wait_for()
    return parts


@pytest.mark.slow
def test_a_rank_is_read_and_interrupted_by_keyboard_while_the_kernel_is_busy(
    started: Callable[..., LabNotebook], pictures: Path
) -> None:
    notebook = started("looking", TRAIN)
    page = notebook.page
    notebook.start(2)
    for rank in range(4):
        notebook.wait_for_text(2, f"epoch {rank}")
    wait_until_all_are("busy", page)

    page.click(f"{WIDGET} .jd-stacks")
    answer = page.locator(f"{WIDGET} .jd-answer pre")
    answer.wait_for()
    stacks = answer.inner_text()
    assert stacks.startswith("ranks 0-3\n")
    assert re.search(r"▶ In\[3\]:\d+ in train: ", stacks)
    assert not page.evaluate("window.isCellDone")

    page.focus(f'{WIDGET} [data-rank="0"]')
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    parts = read_answered_parts(page)
    assert page.inner_text(f"{PANEL} h3") == "Rank 2"
    assert " in train: " in parts["stack"]
    assert parts["last lines"].splitlines() == ["In[3]: running", "epoch 2"]
    assert parts["collectives"].splitlines()[-1].startswith("#3 all_reduce(float64[300,300], sum)")
    assert "703 KiB" in parts["variables"]
    assert not page.evaluate("window.isCellDone")
    notebook.show(1)
    page.screenshot(path=pictures / "rank_panel.png")

    page.focus(f"{PANEL} .jd-interrupt-rank")
    page.keyboard.press("Enter")
    assert "rank 2 signalled" in say_of_request(page, "signalled")
    page.keyboard.press("Escape")
    assert page.locator(PANEL).count() == 0
    assert page.evaluate("document.activeElement.dataset.rank") == "2"

    page.click(f"{WIDGET} .jd-interrupt")
    notebook.wait()
    assert "CellInterrupted" in notebook.text(2)
    # Enter and Esc were for the view: the notebook has not begun to edit, and no cell is gone.
    assert page.evaluate("window.jupyterapp.shell.currentWidget.content.widgets.length") == 3
    assert page.evaluate("window.jupyterapp.shell.currentWidget.content.mode") == "command"


@pytest.mark.slow
def test_the_kernel_is_shown_as_busy_while_a_cell_runs_whatever_is_clicked(
    started: Callable[..., LabNotebook], pictures: Path
) -> None:
    notebook = started("stays_busy", TRAIN)
    page = notebook.page
    notebook.start(2)
    wait_until_all_are("busy", page)
    page.evaluate(FOLLOW_KERNEL)
    page.click(f"{WIDGET} .jd-stacks")
    page.locator(f"{WIDGET} .jd-answer pre").wait_for()
    page.wait_for_function("() => window.statuses.at(-1) === 'busy'")
    assert page.evaluate("window.statuses") == ["busy", "idle", "busy"], "as ipykernel says, and we"
    page.screenshot(path=pictures / "kernel_stays_busy.png")
    page.click(f"{WIDGET} .jd-interrupt")
    notebook.wait()
    notebook.wait_for_kernel()


@pytest.mark.slow
def test_a_lost_rank_is_replaced_by_the_button(
    started: Callable[..., LabNotebook], pictures: Path
) -> None:
    notebook = started("healing", LOSE_A_RANK, "%%spmd\nglobals().get('kept', -1)")
    page = notebook.page
    assert page.is_disabled(f"{WIDGET} .jd-heal")
    notebook.run(2)
    page.wait_for_selector(f'{WIDGET} [data-rank="1"][data-state="lost"]')
    page.click(f'{WIDGET} [data-rank="1"]')
    parts = read_parts(page)
    assert "is lost" in parts["stack"]
    assert "rank 1 is lost: " in parts["last lines"]
    notebook.show(1)
    page.screenshot(path=pictures / "lost_rank.png")
    page.click(f"{WIDGET} .jd-heal")
    assert "delivered" in say_of_request(page, "replaced rank 1 on ")
    wait_until_all_are("idle", page)
    assert page.is_disabled(f"{WIDGET} .jd-heal")
    assert page.inner_text(f"{PANEL} h3") == "Rank 1"  # nothing has closed it meanwhile
    assert "[0] 0  [1] -1  [2] 20  [3] 30" in notebook.run(3)


@pytest.mark.slow
def test_a_click_is_a_signal_at_every_rank_soon(
    started: Callable[..., LabNotebook], pictures: Path
) -> None:
    notebook = started("signals", *[TELL_SIGNALS] * CLICKS)
    page = notebook.page
    times_s, watch = [], Stopwatch()
    for number in range(CLICKS):
        wait_until_all_are("idle", page)
        notebook.start(2 + number)
        notebook.wait_for_text(2 + number, "[0-3] at work")
        clicked_s = page.evaluate(CLICK, f"{WIDGET} .jd-interrupt")
        notebook.wait()
        arrived = re.findall(r"signal at ([\d.]+)", notebook.text(2 + number))
        assert len(arrived) == 4
        times_s.append(max(map(float, arrived)) - clicked_s)
    figures = {
        "click_to_last_signal_s": {"median": statistics.median(times_s), "all": times_s},
        "ranks": 4,
        "aim_s": 0.3,
    }
    (pictures / "click_to_signal.json").write_text(json.dumps(figures), encoding="utf-8")
    print(f"click to signal at the last of 4 ranks: {statistics.median(times_s) * 1e3:.0f} ms")
    # The aim is 0.3 s; a machine that does other things may be slower, one that waits for the
    # cell is far slower.
    watch.assert_less(2, f"the median of {times_s}", took_s=statistics.median(times_s))


@pytest.mark.slow
def test_a_notebook_that_is_saved_while_the_cluster_runs_reads_well_untrusted(
    started: Callable[..., LabNotebook], open_notebook: OpenNotebook
) -> None:
    saved = started("unfinished").save()
    saved["metadata"]["from"] = "a stranger"
    reader = open_notebook(saved, "unfinished_of_a_stranger")
    assert not reader.is_trusted(1)
    text = reader.text(1)
    assert "not live" in text
    assert "3\t● started" in text
    assert reader.page.locator(WIDGET).count() == 0


@pytest.mark.slow
def test_a_cluster_that_is_shown_again_and_again_is_live_in_each_view_of_one_widget(
    started: Callable[..., LabNotebook],
) -> None:
    count = "import ipywidgets.widgets.widget as w\nprint(len(w._instances), 'models')"
    notebook = started("shown_again", count, "%dist_topology", count, "%dist_stop")
    page = notebook.page
    before = notebook.run(2)
    assert "models" in before
    for _time in range(3):
        notebook.run(3)
        wait_until_all_are("idle", page, 8)
    assert page.locator(WIDGET).count() == 2
    assert notebook.run(4) == before
    notebook.run(5)
    for index in (1, 3):
        notebook.wait_for_text(index, "not live")
    assert page.locator(WIDGET).count() == 0
