"""The first notebook, run by a person: JupyterLab in Chromium, a kernel, four real ranks."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.facts import assert_tells
from tests.patience import firm_s

from .lab import (
    FOLLOW_STATES,
    WIDGET,
    LabNotebook,
    a_meeting,
    a_notebook,
    wait_until_all_are,
    wait_until_all_wait_for_rank_0,
)

pytestmark = pytest.mark.browser

OpenNotebook = Callable[..., LabNotebook]
FIRST_CELL = Path(__file__).parents[2] / "notebooks" / "01_first_cell.ipynb"
RANKS = ["0", "1", "2", "3"]
LOAD, START = "%load_ext jupyter_dist", "%dist_start -n 4"
GREETING, MEETING = "the same words", "all here again"
"""What cells of the notebook say."""
HANDLED_S = 20
"""A click that waits for the cell to end takes longer than this."""
ARE_PICTURES_WANTED = "JD_SCREENSHOTS" in os.environ
"""Else nobody looks at pictures in each theme."""
THEMES = {"dark": "JupyterLab Dark", "light": "JupyterLab Light"}
LIVE_VIEW = "application/vnd.jupyter.widget-view+json"
# Measures how long the page did nothing else than work, at worst.
FOLLOW_GAPS = """() => {
  window.longestGap = 0;
  let last = performance.now();
  setInterval(() => {
    const now = performance.now();
    window.longestGap = Math.max(window.longestGap, now - last);
    last = now;
  }, 10);
}"""


def worked_s(session: Any) -> float:
    """Seconds for which the page has had a core so far, as Chromium's own protocol tells."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float({metric["name"]: metric["value"] for metric in metrics}["ThreadTime"])


def first_cell_with(source: str, *, before: str) -> dict[str, Any]:
    """Give the first notebook with one more cell before the one that contains `before`."""
    notebook: dict[str, Any] = json.loads(FIRST_CELL.read_text(encoding="utf-8"))
    position = find(notebook, before)
    (extra,) = a_notebook(source)["cells"]
    notebook["cells"].insert(position, {**extra, "id": "extra"})
    return notebook


def find(notebook: dict[str, Any], words: str) -> int:
    """Give the index of the first code cell with these words."""
    return next(
        index
        for index, cell in enumerate(notebook["cells"])
        if cell["cell_type"] == "code" and words in "".join(cell["source"])
    )


def take_pictures(notebook: LabNotebook, folder: Path, name: str) -> None:
    if not ARE_PICTURES_WANTED:
        return
    for word, theme in THEMES.items():
        notebook.change_theme(theme)
        notebook.page.screenshot(path=folder / f"{name}_{word}.png")


def take_pictures_at_work(
    notebook: LabNotebook, folder: Path, gate: Path, work: int, view: int
) -> None:
    """Run the cell `work` in each theme, and picture the view in the output of the cell `view`.

    It ends when the file `gate` is there.
    """
    if not ARE_PICTURES_WANTED:
        return
    notebook.command("application:toggle-left-area")
    for word, theme in THEMES.items():
        notebook.change_theme(theme)
        gate.unlink()
        notebook.start(work)
        wait_until_all_wait_for_rank_0(notebook.page)
        notebook.show(view)
        notebook.page.screenshot(path=folder / f"at_work_{word}.png")
        gate.touch()
        notebook.wait()


def test_the_first_notebook_runs_shows_every_rank_at_work_and_reads_well_when_saved(
    open_notebook: OpenNotebook, pictures: Path, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    meeting = a_meeting(gate)
    source = first_cell_with(meeting, before="%dist_status")
    notebook = open_notebook(source, "first_cell")
    page = notebook.page
    outputs, seen = {}, {}
    for index, cell in enumerate(source["cells"]):
        text = "".join(cell["source"])
        if cell["cell_type"] != "code" or text == "%dist_stop":
            continue
        if text == meeting:
            wait_until_all_are("idle", page)
            page.evaluate(FOLLOW_STATES)
        notebook.start(index)
        if text == meeting:
            wait_until_all_wait_for_rank_0(page)
            gate.touch()
        notebook.wait()
        outputs[index] = notebook.text(index)
        if text in (START, meeting):
            wait_until_all_are("idle", page)
        if text == meeting:
            seen = page.evaluate("window.seen")
            take_pictures_at_work(notebook, pictures, gate, index, find(source, START))

    assert sorted(seen) == RANKS
    for rank in RANKS:
        assert seen[rank][0] == seen[rank][-1] == "idle"
        assert {"busy", "collective"} & set(seen[rank])
    assert "collective" in seen["3"]

    greeting = outputs[find(source, GREETING)]
    assert f"[0-3] {GREETING} from everyone" in greeting
    for rank in RANKS:
        assert re.search(rf"\[{rank}\] +I am rank {rank} of 4, process \d+", greeting)
    assert "Out[0-3]: np.float64(6666.0)" in outputs[find(source, "all_reduce:")]
    failure = outputs[find(source, "1 / 0")]
    assert "rank 2 raised" in failure
    assert "----> 3     1 / 0" in failure
    assert_tells(failure, "PeerFailed", "ranks 0-1,3 (3): rank 2 raised ZeroDivisionError")
    assert f"Out[0-3]: '{MEETING}'" in outputs[find(source, MEETING)]
    notebook.show(find(source, "1 / 0"))
    take_pictures(notebook, pictures, "error")

    stop = find(source, "%dist_stop")
    notebook.start(stop)
    notebook.wait_for_text(stop, "cluster cluster-1 is stopped")
    notebook.wait_for_text(find(source, START), "not live")
    assert page.locator(WIDGET).count() == 0
    notebook.show(find(source, START))
    take_pictures(notebook, pictures, "stopped")
    saved = notebook.save()
    assert LIVE_VIEW not in json.dumps(saved)
    assert "widgets" not in saved["metadata"]
    check_untrusted(open_notebook, saved, pictures)


def check_untrusted(open_notebook: OpenNotebook, saved: dict[str, Any], pictures: Path) -> None:
    """Look at the first notebook as someone sees it who got it, without a kernel."""
    # Not the content that was signed, so Lab has no reason to trust it.
    saved["metadata"]["from"] = "a stranger"
    reader = open_notebook(saved, "from_a_stranger")
    reader.shut_kernel_down()
    texts = {word: reader.text(find(saved, word)) for word in (GREETING, "1 / 0", START)}
    assert not reader.is_trusted(find(saved, GREETING))
    assert f"[0-3] {GREETING} from everyone" in texts[GREETING].splitlines()
    assert len(re.findall(r"^\[\d\]   I am rank", texts[GREETING], re.MULTILINE)) == 4
    assert "Out[0-3]: np.float64(6666.0)" in reader.text(find(saved, "all_reduce:"))
    assert "ZeroDivisionError: " in texts["1 / 0"]
    for words in (
        "cluster-1 · ready",
        "rank\tstate",
        "0\t● started",
        "not live: the cluster is stopped",
    ):
        assert words in texts[START]
    # The sanitiser leaves the prefix its place and the snapshot its coloured edge.
    looks = reader.page.evaluate(
        """([talk, snapshot]) => {
          const cells = window.jupyterapp.shell.currentWidget.content.widgets;
          const style = (index, selector) =>
            getComputedStyle(cells[index].outputArea.node.querySelector(selector));
          return { spaces: style(talk, 'pre').whiteSpace, prefix: style(talk, 'pre span').opacity,
                   font: style(talk, 'pre').fontFamily,
                   edge: style(snapshot, 'tr:nth-child(3) td').borderLeftWidth };
        }""",
        [find(saved, GREETING), find(saved, START)],
    )
    assert looks["spaces"] == "pre-wrap"
    assert "monospace" in looks["font"]
    assert float(looks["prefix"]) < 1
    assert looks["edge"] == "4px"
    reader.show(find(saved, START))
    take_pictures(reader, pictures, "untrusted")


@pytest.mark.slow
def test_the_interrupt_button_ends_cells_that_sleep_or_compute(
    open_notebook: OpenNotebook,
) -> None:
    stuck = ("%%spmd\nimport time\ntime.sleep(300)", "%%spmd\nwhile True: pass")
    notebook = open_notebook(a_notebook(LOAD, START, *stuck, "%%spmd\nrank"), "stuck", ran=2)
    page = notebook.page
    for index in (2, 3):
        wait_until_all_are("idle", page)
        notebook.start(index)
        wait_until_all_are("busy", page)
        page.click(f"{WIDGET} .jd-interrupt")
        request = page.locator(f"{WIDGET} .jd-request").first
        request.get_by_text("delivered").wait_for(timeout=HANDLED_S * 1000)
        assert "ranks 0-3 signalled" in request.inner_text()
        notebook.wait(timeout_s=HANDLED_S)
        assert "CellInterrupted: ranks 0-3 interrupted" in notebook.text(index)
    wait_until_all_are("idle", page)
    assert "[3] 3" in notebook.run(4)


@pytest.mark.slow
def test_a_hundred_thousand_lines_leave_the_page_usable_and_the_file_small(
    open_notebook: OpenNotebook, pictures: Path
) -> None:
    story = '%%spmd\nfor line in range(25_000):\n    print(f"rank {rank} line {line} of a story")'
    notebook = open_notebook(a_notebook(LOAD, START, story), "story", ran=2)
    notebook.page.evaluate(FOLLOW_GAPS)
    session = notebook.page.context.new_cdp_session(notebook.page)
    session.send("Performance.enable")
    worked_before_s = worked_s(session)
    text = notebook.run(2)
    longest_gap_ms = notebook.page.evaluate("window.longestGap")
    worked_meanwhile_s = worked_s(session) - worked_before_s
    saved_bytes = len(json.dumps(notebook.save()))
    figures = {"longest_gap_ms": longest_gap_ms, "saved_bytes": saved_bytes}
    (pictures / "hundred_thousand_lines.json").write_text(json.dumps(figures), encoding="utf-8")
    for rank in RANKS:
        assert f"rank {rank} line 24999 of a story" in text
    assert "left out" in text
    assert saved_bytes < 1_000_000
    # The ranks want every core, so a page may do nothing because it has none; but its own work
    # cannot hold it up for longer than all of that work has taken.
    assert min(longest_gap_ms / 1000, worked_meanwhile_s) < 2
    assert longest_gap_ms / 1000 < firm_s(2)


@pytest.mark.slow
def test_lines_are_shown_while_the_cell_still_runs(
    open_notebook: OpenNotebook, tmp_path: Path
) -> None:
    first_gate, gate = tmp_path / "first_gate", tmp_path / "gate"
    slow = f"""%%spmd
import os, time
for line in range(10):
    print("line", line)
    while line == 1 and not os.path.exists({str(first_gate)!r}):
        time.sleep(0.01)
    while line == 4 and not os.path.exists({str(gate)!r}):
        time.sleep(0.01)"""
    notebook = open_notebook(a_notebook(LOAD, START, slow), "slow", ran=2)
    notebook.start(2)
    for last, opens in ((1, first_gate), (4, gate)):
        notebook.wait_for_text(2, f"[0-3] line {last}")
        assert not notebook.page.evaluate("window.isCellDone")
        assert f"line {last + 1}" not in notebook.text(2)
        opens.touch()
    notebook.wait()
    assert "[0-3] line 9" in notebook.text(2)


@pytest.mark.slow
def test_a_page_that_is_loaded_again_shows_the_cluster_live_again(
    open_notebook: OpenNotebook,
) -> None:
    notebook = open_notebook(a_notebook(LOAD, START, "%%spmd\nrank"), "reloaded", ran=2)
    wait_until_all_are("idle", notebook.page)
    notebook.save()
    notebook.reload()
    wait_until_all_are("idle", notebook.page)
    root = notebook.page.locator(WIDGET)
    before = int(root.get_attribute("data-sequence"))
    assert "[3] 3" in notebook.run(2)
    notebook.page.wait_for_function(
        "([view, before]) => Number(document.querySelector(view).dataset.sequence) > before",
        arg=[WIDGET, before],
    )


@pytest.mark.slow
def test_a_cluster_outlives_the_kernel_with_all_its_variables(
    open_notebook: OpenNotebook, pictures: Path
) -> None:
    cells = (LOAD, START, "%%spmd\nkept = 10 * rank", "%dist_attach", "%%spmd\nkept")
    notebook = open_notebook(a_notebook(*cells), "restarted", ran=3)
    notebook.restart_kernel()
    notebook.run(0)
    notebook.start(3)
    notebook.wait_for_text(3, "cluster cluster-1: ranks 0-3")
    notebook.wait()
    # JupyterLab forgets what a restarted kernel showed; the first picture itself has become a
    # table, which says of when it is.
    notebook.wait_for_text(1, "not live")
    assert "[0] 0  [1] 10  [2] 20  [3] 30" in notebook.run(4)
    assert "not live" not in notebook.text(3)
    take_pictures(notebook, pictures, "restarted")
