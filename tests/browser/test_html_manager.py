"""Widgets on pages that draw them with @jupyter-widgets/html-manager: saved, as nbviewer's, and live."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from tests.kernels import with_files
from tests.processes.leftovers import Home, wait_until

from .lab import WIDGET, a_meeting, wait_until_all_are, wait_until_all_wait_for_rank_0
from .server import JupyterServer

pytestmark = pytest.mark.browser

_ROOT = Path(__file__).parents[2]
PAGE = "http://saved.test/notebook.html"
NOT_ON_THE_PAGE = "http://saved.test/anywidget.js"
"""html-manager looks for a library beside the page before it asks its CDN."""
CELLS = (
    "%load_ext jupyter_dist",
    "%dist_start -n 4",
    """%%spmd --ranks 1
import ipywidgets as widgets
widgets.IntSlider(value=3, description="lr")""",
)
SLIDER = """%%spmd --ranks 1
import ipywidgets as widgets
slider = widgets.IntSlider(value=3, description="lr")
slider.observe(lambda change: print("lr is", change.new), "value")
slider"""


@pytest.fixture(scope="module")
def libraries() -> dict[str, Path]:
    """The files that such a page loads from others, by the end of their addresses."""
    anywidget = pytest.importorskip("anywidget")
    fetched = Path(os.environ.get("JUPYTER_DIST_HTML_MANAGER") or _ROOT / "out" / "html-manager")
    if not (fetched / "embed-amd.js").is_file():
        pytest.skip(f"no html-manager: sh tests/browser/fetch_html_manager.sh {fetched}")
    return {
        "require.min.js": fetched / "require.js",
        "/dist/embed-amd.js": fetched / "embed-amd.js",
        "/dist/index.js": Path(anywidget.__file__).parent / "nbextension" / "index.js",
    }


@pytest.fixture
def saved_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A notebook with a picture of a cluster and a slider of a rank, as nbconvert writes it."""
    nbclient = pytest.importorskip("nbclient")
    nbconvert = pytest.importorskip("nbconvert")
    from nbformat import v4

    notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in CELLS])
    home = Home(tmp_path)
    home.enter(monkeypatch)
    nbclient.NotebookClient(notebook, config=with_files(), timeout=60).execute()
    wait_until(lambda: not home.leftovers(), 15, "the cluster has ended with the notebook")
    body, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    return str(body)


@pytest.fixture
def open_page(chromium: Any, libraries: dict[str, Path]) -> Iterator[Callable[..., Any]]:
    """Open a page that its server sends, or this `body`, with nothing from elsewhere but `libraries`.

    An error in its console fails the test.
    """
    contexts, problems = [], []

    def note(message: Any) -> None:
        if message.type == "error" and message.location["url"] != NOT_ON_THE_PAGE:
            problems.append(message.text)

    def open_page(address: str, body: str | None = None) -> Any:
        def serve(route: Any) -> None:
            url = route.request.url
            file = next((file for end, file in libraries.items() if url.endswith(end)), None)
            if file is not None:
                route.fulfill(body=file.read_bytes(), content_type="text/javascript")
            elif url.startswith(urljoin(address, "/")) and body is None:
                route.continue_()
            elif url == address:
                route.fulfill(body=body, content_type="text/html")
            else:
                route.fulfill(status=404 if url == NOT_ON_THE_PAGE else 204, body="")

        context = chromium.new_context(viewport={"width": 1000, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", note)
        context.route("**/*", serve)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def live_page(open_page: Callable[..., Any], lab: JupyterServer) -> Iterator["LivePage"]:
    """A page with a kernel of its own; that, and its clusters, end with the test."""
    page = open_page(lab.static_address("live_widgets.html"))
    page.wait_for_function("() => 'start' in window")
    yield LivePage(page)
    lab.forget()


class LivePage:
    """A page that runs cells; the last one is the one that is looked at."""

    def __init__(self, page: Any) -> None:
        self.page = page

    def start(self, code: str) -> Any:
        """Begin to run a cell; give its output."""
        self.page.evaluate("code => window.start(code)", code)
        return self.page.locator("section").last

    def wait(self) -> None:
        """Wait until the last cell has ended."""
        self.page.locator("section:last-of-type[data-state=done]").wait_for(state="attached")

    def run(self, code: str) -> str:
        """Run a cell to its end; give what it shows then."""
        output = self.start(code)
        self.wait()
        return str(output.inner_text())


def test_a_saved_page_shows_the_picture_with_its_date_and_a_slider_of_a_rank(
    open_page: Callable[..., Any], saved_page: str, pictures: Path
) -> None:
    assert '"script_follows": false' in saved_page  # a page that came now would ask for the script
    page = open_page(PAGE, saved_page)
    picture, slider = (page.locator(".widget-subarea").nth(number) for number in (0, 1))
    picture.get_by_text("Snapshot of 20").wait_for()
    slider.locator(".widget-readout").wait_for()
    page.screenshot(path=pictures / "saved_with_html_manager.png")
    said = picture.inner_text()
    assert "not live" in said
    assert said.count("idle") == 5
    assert picture.locator("button").count() == 0
    assert slider.locator(".widget-readout").inner_text() == "3"


@pytest.mark.slow
def test_a_live_page_shows_ranks_that_compute_and_reaches_the_cluster_and_a_widget_of_a_rank(
    live_page: LivePage, pictures: Path, tmp_path: Path
) -> None:
    page, gate = live_page.page, tmp_path / "gate"
    live_page.run("%load_ext jupyter_dist\n%dist_start -n 4")
    wait_until_all_are("idle", page)

    # While the kernel runs a cell, the page hears of the ranks, and the kernel not of the page.
    live_page.start(a_meeting(gate))
    wait_until_all_wait_for_rank_0(page)
    page.click(f"{WIDGET} .jd-stacks")
    page.screenshot(path=pictures / "live_with_html_manager.png")
    gate.touch()
    live_page.wait()
    wait_until_all_are("idle", page)
    page.locator(f"{WIDGET} .jd-answer pre", has_text="runs no cell").wait_for()

    live_page.run("%%spmd --background -o job\nwhile True: pass")
    wait_until_all_are("busy", page)
    page.click(f"{WIDGET} .jd-interrupt")
    page.locator(f"{WIDGET} .jd-request-words", has_text="ranks 0-3 signalled").wait_for()
    wait_until_all_are("idle", page)
    page.click(f'{WIDGET} [data-rank="2"]')
    page.locator(f"{WIDGET} .jd-rank-panel pre", has_text="KeyboardInterrupt").wait_for()

    slider = live_page.start(SLIDER)
    live_page.wait()
    slider.locator(".noUi-handle").press("ArrowRight")
    slider.get_by_text("lr is 4").wait_for()
    page.screenshot(path=pictures / "live_slider_with_html_manager.png")
    assert "value 4" in live_page.run("%%spmd --ranks 1\nprint('value', slider.value)")

    live_page.run("%dist_stop")
    page.get_by_text("not live").wait_for()
    page.screenshot(path=pictures / "live_page_at_the_end.png")
    assert page.locator(WIDGET).count() == 0
    assert page.locator(".noUi-handle").count() == 0
