"""Cell output as a person sees, copies and opens it: in a blank page, and in JupyterLab."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_dist.protocol.messages import ErrorInfo, Output, RankFinished
from jupyter_dist.views.cell.cell_picture import CellRecord
from jupyter_dist.views.cell.output_html import saved_bundle
from tests.facts import assert_tells

from .lab import LabNotebook, a_notebook

pytestmark = pytest.mark.browser

OpenNotebook = Callable[..., LabNotebook]
SELECT_ALL = """node => {
  const selection = getSelection();
  selection.selectAllChildren(node);
  return selection.toString();
}"""
BARS = """%%spmd
from tqdm.auto import tqdm
import os, time
for step in tqdm(range(40), desc="epoch"):
    comm.barrier()
    while step == 20 and rank > 1 and not os.path.exists("go-on"):
        time.sleep(0.02)"""
FIGURE = """%%spmd
import matplotlib.pyplot as plt
_ = plt.plot([1, 2 if rank < 3 else 3])"""
FIGURES = """%%spmd --figures row
import matplotlib.pyplot as plt, random, time
time.sleep(random.random() / 2)
plt.figure(figsize=(1.2, 1)).gca().plot([1, rank, 2])
plt.show()"""
TABLE = """%%spmd
import pandas
pandas.DataFrame({"a": [1, 2], "b": [3, 4]})"""
ERRORS = """%%spmd --on-error wait
if rank > 1:
    {}["missing"]
1 / 0"""
WIDGET = """%%spmd
import ipywidgets
ipywidgets.IntSlider(value=3, description="lr")"""


def lines_of(text: str) -> list[str]:
    """Give what a person reads: browsers differ in how many blank lines part two blocks."""
    return [line.rstrip() for line in text.replace("\xa0", " ").splitlines() if line.strip()]


def a_record_of_twelve() -> CellRecord:
    record = CellRecord(12)
    for rank in range(12):
        mark = "!" if rank == 3 else ""
        text = "".join(f"line {line}{mark}\n" for line in range(6))
        bar = {"bar": 1, "description": "epoch", "n": rank + 1, "total": 12, "elapsed_s": 2.0}
        record.take_output([rank], [Output("stdout", text), Output("progress", data=bar)])
        ename = "ValueError" if rank < 2 else "PeerFailed"
        error = ErrorInfo(ename, "bad", ("Cell In[1], line 2", f"trace of {ename}"))
        status = "raised" if rank < 2 else "peer_failed"
        record.take_finished(RankFinished(rank, status, 1.0, None, error))
    return record


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    page = chromium.new_page(viewport={"width": 900, "height": 700})
    yield page
    page.close()


def show_alone(page: Any, markup: str) -> Any:
    """Put an output into an empty page; give its element."""
    page.set_content(f'<body style="font-family:sans-serif"><div id="output">{markup}</div></body>')
    return page.wait_for_selector("#output")


def test_what_is_copied_is_what_is_seen_folded_and_unfolded(page: Any) -> None:
    output = show_alone(page, saved_bundle(a_record_of_twelve().final_picture(0))["text/html"])
    first = lines_of(output.evaluate(SELECT_ALL))
    assert first == lines_of(output.inner_text())
    assert first[:2] == ["rank 3 · 6 lines", "[3] line 0!"]
    assert "trace of PeerFailed" not in first
    page.click("text=PeerFailed on ranks")
    page.click("text=rank 3 · 6 lines")
    second = lines_of(output.evaluate(SELECT_ALL))
    assert second == lines_of(output.inner_text())
    assert "trace of PeerFailed" in second
    assert "[3] line 0!" not in second
    assert len(second) == len(set(second))


def test_the_drawn_bar_is_as_long_as_the_ranks_are_far(page: Any) -> None:
    output = show_alone(page, saved_bundle(a_record_of_twelve().final_picture(0))["text/html"])
    trough = output.query_selector('span[title^="0: 1"]')
    whole = trough.bounding_box()
    parts = [part.bounding_box() for part in trough.query_selector_all("span")]
    assert whole["width"] == 160
    assert parts[0]["x"] == whole["x"]
    assert parts[-1]["x"] + parts[-1]["width"] == pytest.approx(whole["x"] + 160, abs=2)
    assert len({part["y"] for part in parts}) == 1
    assert 8 <= parts[0]["height"] <= 12


@pytest.mark.slow
def test_a_notebook_shows_bars_figures_tables_errors_and_widgets_of_ranks(
    open_notebook: OpenNotebook, pictures: Path
) -> None:
    shown = (BARS, FIGURE, TABLE, ERRORS, WIDGET, FIGURES)
    cells = ("%load_ext jupyter_dist", "%dist_start -n 4", *shown)
    notebook = open_notebook(a_notebook(*cells), "cell_output", ran=2)
    page = notebook.page
    bars, figure, table, errors, widget, figures = range(2, 8)

    notebook.start(bars)
    # Ranks 2 and 3 hold the others up at the barrier, so the bar stands still to be looked at.
    notebook.wait_for_text(bars, "epoch [0-3]")
    notebook.wait_for_text(bars, "mean 20.5/40 · slowest rank 2: 20 · fastest rank 0: 21")
    assert not page.evaluate("window.isCellDone")
    notebook.show(bars).screenshot(path=pictures / "bar_live.png")
    (notebook.path.parent / "go-on").touch()
    notebook.wait()
    assert lines_of(notebook.text(bars))[-1] == "epoch [0-3]  100% 40/40"
    assert len(lines_of(notebook.text(bars))) == 1

    assert lines_of(notebook.run(figure)) == ["[0-2]", "[3]"]
    assert notebook.show(figure).query_selector_all("img")[1].bounding_box()["width"] > 200
    text = notebook.run(table)
    assert text.count("Out[0-3]:") == 1
    assert notebook.show(table).query_selector("table") is not None
    notebook.show(table).screenshot(path=pictures / "table.png")
    assert "rank 3" in notebook.run(widget)
    notebook.run(figures)
    check_that_figures_are_side_by_side(notebook, figures)
    notebook.show(figures).screenshot(path=pictures / "figures_row.png")

    text = notebook.run(errors)
    assert "ZeroDivisionError: " in text
    check_that_errors_open_by_keyboard(notebook, errors)
    notebook.show(errors).screenshot(path=pictures / "errors.png")

    saved = notebook.save()
    check_what_a_stranger_sees(open_notebook, saved, (bars, figure, table, errors, figures))


def check_that_figures_are_side_by_side(notebook: LabNotebook, index: int) -> None:
    images = notebook.show(index).query_selector_all("img")
    boxes = [image.bounding_box() for image in images]
    assert len({box["y"] for box in boxes}) == 1
    assert [box["x"] for box in boxes] == sorted({box["x"] for box in boxes})
    assert len(boxes) == 4
    assert lines_of(notebook.text(index)) == ["[0]", "[1]", "[2]", "[3]"]


def check_that_errors_open_by_keyboard(notebook: LabNotebook, index: int) -> None:
    output = notebook.show(index)
    heading = output.query_selector("summary")
    assert_tells(heading.inner_text(), "KeyError", "ranks 2-3")
    shown = lines_of(output.evaluate(SELECT_ALL))
    assert shown == lines_of(output.inner_text())
    assert not any('["missing"]' in line and "-->" in line for line in shown)
    heading.focus()
    notebook.page.keyboard.press("Enter")
    notebook.page.wait_for_function(
        "details => details.open", arg=heading.query_selector("xpath=..")
    )
    opened = lines_of(output.evaluate(SELECT_ALL))
    assert opened == lines_of(output.inner_text())
    assert any('["missing"]' in line and "-->" in line for line in opened)


def check_what_a_stranger_sees(
    open_notebook: OpenNotebook, saved: dict[str, Any], indices: tuple[int, ...]
) -> None:
    """Open what was saved as someone else would: untrusted, without a kernel."""
    assert "widget-view" not in json.dumps([saved["cells"][index] for index in indices])
    # Not the content that was signed, so Lab has no reason to trust it.
    saved["metadata"]["from"] = "a stranger"
    reader = open_notebook(saved, "cell_output_of_a_stranger")
    reader.shut_kernel_down()
    bars, figure, table, errors, figures = indices
    assert not reader.is_trusted(bars)
    output = reader.show(bars)
    assert lines_of(output.inner_text())[-1] == "epoch [0-3]  100% 40/40"
    # The sanitiser leaves the drawing its size.
    drawn = output.query_selector("span[title] span").bounding_box()
    assert (drawn["width"], drawn["height"]) == (160, 10)
    assert len(reader.show(figure).query_selector_all("img")) == 2
    check_that_figures_are_side_by_side(reader, figures)
    assert reader.show(table).query_selector("table") is not None
    heading = reader.show(errors).query_selector("summary")
    assert_tells(heading.inner_text(), "KeyError", "ranks 2-3")
    heading.focus()
    reader.page.keyboard.press("Enter")
    reader.page.wait_for_function("details => details.open", arg=heading.query_selector("xpath=.."))
    assert lines_of(reader.show(errors).evaluate(SELECT_ALL)) == lines_of(
        reader.show(errors).inner_text()
    )
