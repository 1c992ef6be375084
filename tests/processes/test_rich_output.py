"""Figures, tables, formulas and widgets of real libraries, from ranks to what a person sees."""

import functools
import json

import pytest

from tests.facts import assert_tells

from .pages import show


@pytest.fixture
def shown(four):
    """Run a cell on all ranks, and give the result and the page."""
    return functools.partial(show, four)


def mimes(result):
    return [[sorted(output.data) for output in rank.displays] for rank in result]


def assert_ok(result):
    assert result.ok, [str(rank.error) for rank in result]


PLOT = "import matplotlib.pyplot as plt\n"


def test_equal_figures_are_shown_once_with_all_ranks_named(shown):
    pytest.importorskip("matplotlib")
    result, page = shown(f"{PLOT}_ = plt.plot([1, 2])")
    assert_ok(result)
    assert mimes(result) == [[["image/png", "text/plain"]]] * 4
    assert page.html.count("<img") == 1
    assert page.text == "[0-3] <Figure size 640x480 with 1 Axes>\n"


def test_a_figure_of_another_rank_is_told_apart(shown):
    pytest.importorskip("matplotlib")
    result, page = shown(f"{PLOT}_ = plt.plot([1, 2 if rank != 2 else 3])")
    assert_ok(result)
    assert page.html.count("<img") == 2
    assert page.html.index(">[0-1,3]<") != page.html.index(">[2]<")


def test_figures_come_from_show_and_from_the_end_of_the_cell_and_are_closed(shown):
    pytest.importorskip("matplotlib")
    code = f"""{PLOT}
_ = plt.plot([1, 2])
plt.show()
open_after_show = plt.get_fignums()
print("between")
_ = plt.plot([2, 1])"""
    result, page = shown(code)
    assert_ok(result)
    kinds = [line.removeprefix("[0-3] ") for line in page.text.splitlines()]
    assert kinds == ["<Figure size 640x480 with 1 Axes>", "between",
                     "<Figure size 640x480 with 1 Axes>"]  # fmt: skip
    result, page = shown("open_after_show + plt.get_fignums()")
    assert page.text == "Out[0-3]: []\n"


def test_the_figure_of_a_cell_that_raised_is_shown(shown):
    pytest.importorskip("matplotlib")
    result, page = shown(f"{PLOT}_ = plt.plot([1, 2])\n1 / 0")
    assert {rank.status for rank in result} == {"raised"}
    assert page.html.count("<img") == 1


def test_lines_of_a_plot_as_a_value_are_one_for_all_ranks(shown):
    pytest.importorskip("matplotlib")
    _, page = shown(f"{PLOT}plt.plot([1, 2])")
    assert "Out[0-3]: [<matplotlib.lines.Line2D at 0x" in page.text


def test_tables_of_pandas_come_as_html_and_as_text(shown):
    pytest.importorskip("pandas")
    result, page = shown("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': [3, rank // 2]})")
    assert_ok(result)
    assert page.html.count("<table") == 2
    assert "Out[0-1]:" in page.text
    assert "   a  b\n0  1  3\n1  2  1" in page.text


def test_rich_prints_in_colour_and_shows_its_own_values(shown):
    pytest.importorskip("rich")
    result, page = shown("from rich import print as rich_print\nrich_print('[bold red]hot[/]')")
    assert_ok(result)
    assert page.text == "[0-3] hot\n"
    assert "font-weight:bold;color:color-mix(in srgb,rgb(" in page.html
    result, page = shown("from rich.table import Table\nt = Table('a')\nt.add_row(str(rank))\nt")
    assert [output.kind for output in result[0].displays] == ["value"]
    assert page.html.count("<pre style=") >= 4
    assert "┃ a ┃" in page.text


def test_rich_in_a_file_of_ones_own_is_as_ever(shown):
    pytest.importorskip("rich")
    code = """import io, contextlib
from rich.console import Console
file, hidden = io.StringIO(), io.StringIO()
Console(file=file).print("[red]x[/]")
with contextlib.redirect_stdout(hidden):
    Console().print("[red]y[/]")
file.getvalue() + hidden.getvalue()"""
    _, page = shown(code)
    assert page.text == "Out[0-3]: 'x\\ny\\n'\n"


def test_a_bar_of_rich_is_printed_once_it_is_done(shown):
    pytest.importorskip("rich")
    result, page = shown("from rich.progress import track\nfor _ in track(range(3)):\n    pass")
    assert_ok(result)
    assert "100%" in page.text


def test_formulas_come_as_latex(shown):
    result, page = shown("from IPython.display import Math\nMath(r'\\frac{x^2}{3}')")
    assert_ok(result)
    assert "$\\displaystyle \\frac{x^2}{3}$" in page.html


def test_formulas_of_sympy_come_as_they_do_in_a_notebook(shown):
    pytest.importorskip("sympy", reason="sympy is not installed")
    result, page = shown("import sympy\nsympy.init_printing()\nsympy.Symbol('x') ** 2 / 3")
    assert_ok(result)
    assert "text/latex" in result[0].displays[-1].data
    assert "Out[0-3]" in page.text


def test_widgets_of_ranks_are_named_and_do_not_pretend_to_live(shown):
    code = """import ipywidgets
slider = ipywidgets.IntSlider(value=3, description="lr")
display(slider)
slider.value = 5
box = ipywidgets.VBox([slider, ipywidgets.Text("hello")])
box"""
    result, page = shown(code)
    assert_ok(result)
    assert_tells(page.text, "[0-3] IntSlider(value=3, description='lr') · ", "not live")
    assert "VBox(children=(IntSlider(value=5, description='lr'), Text(value='hello')))" in page.text
    assert "widget-view" not in json.dumps(page.bundle)


def test_what_widgets_would_say_to_a_page_goes_nowhere_without_an_error(shown):
    code = """import ipywidgets
button = ipywidgets.Button(description="go")
button.on_click(print)
button.click()
area = ipywidgets.Output()
with area:
    print("inside")
area.clear_output()
ipywidgets.interact(lambda x: print("got", x), x=3)
link = ipywidgets.jslink((ipywidgets.IntText(), "value"), (ipywidgets.IntText(), "value"))
button.send({"a": 1})
button.close()"""
    result, page = shown(code)
    assert_ok(result)
    assert "[0-3] inside" in page.text
    assert "[0-3] got 3" in page.text
    assert all(rank.stderr == "" for rank in result)


def test_the_library_of_plotly_is_saved_once_and_every_figure_is_shown(shown):
    pytest.importorskip("plotly")
    code = """from IPython.display import HTML, display
import plotly.graph_objects as go
for k in range(2):
    display(HTML(go.Figure(go.Bar(y=[rank, k])).to_html(include_plotlyjs=True)))"""
    result, page = shown(code)
    assert_ok(result)
    assert page.html.count("* plotly.js v") == 1
    assert page.html.count("Plotly.newPlot(") == 8
    assert "left out of the saved output" not in page.html
