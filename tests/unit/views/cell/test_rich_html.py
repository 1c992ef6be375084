import pytest

from jupyter_dist.views.cell.rich_html import RichHtml
from jupyter_dist.views.outputs.rich_outputs import read_bundle

LIBRARY = f"<script>/* a library */{'x' * 40_000}</script>"


def html(markup):
    return read_bundle({"text/html": markup})


def test_a_library_that_many_figures_bring_is_written_once():
    page = RichHtml()
    written = [
        page.write("", html(f"{LIBRARY}<p>{k}</p><script>draw({k})</script>")) for k in "abc"
    ]
    assert "".join(written).count("a library") == 1
    assert written[0].index("a library") < written[0].index("draw(a)")
    assert all(f"<p>{k}</p><script>draw({k})</script>" in "".join(written) for k in "abc")


def test_another_library_and_scripts_of_figures_stay():
    page = RichHtml()
    small = "<script>draw()</script>"
    other = LIBRARY.replace("a library", "another")
    written = page.write("", html(LIBRARY + small)) + page.write("", html(other + small))
    assert written.count("<script>") == 4


def test_a_library_is_counted_once_against_the_bound():
    page = RichHtml(room=60_000)
    written = [page.write("", html(f"{LIBRARY}<p>{k}</p>")) for k in range(3)]
    assert "left out of the saved output" not in "".join(written)
    assert "left out" in page.write("", html("y" * 60_000))


@pytest.mark.parametrize("markup", ["<script", "<script>", "<SCRIPT >" + "x" * 50_000, "</script>"])
def test_markup_that_is_not_closed_is_left_as_it_is(markup):
    assert RichHtml().write("", html(markup)) == f"<div>{markup}</div>"


def test_figures_side_by_side_have_their_heads():
    beside = RichHtml("row").write("<b>[0]</b>", html("<p>1</p>"))
    assert beside.startswith('<div style="display:inline-block')
    assert beside.index("[0]") < beside.index("<p>1</p>")
