"""A real browser for the tests that need one; without it they say why they are skipped."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.views.topology.script_modules import joined_modules

from .lab import CELL_TIMEOUT_S, LabNotebook
from .network import OwnNetwork
from .panel import PANEL_CHOICE, build_panel
from .server import JupyterServer
from .topologies import show

_HERE = Path(__file__).parent
_STATIC = _HERE.parents[1] / "jupyter_dist" / "views" / "topology" / "static"
VIEW_ORIGIN = "http://view.test"
BROWSER_OPTIONS = ["--disable-dev-shm-usage"]
_SERVED = {
    "/": (_HERE / "harness.html", "text/html"),
}
_TYPES = {".js": "text/javascript", ".css": "text/css"}


@pytest.fixture(scope="session")
def own_network() -> Iterator[OwnNetwork]:
    """The network of all pages and of the servers that they ask."""
    network = OwnNetwork()
    yield network
    network.close()


@pytest.fixture(scope="module", autouse=True)
def in_own_network(own_network: OwnNetwork) -> Iterator[None]:
    """Have the browser of a module, its servers and its tests there."""
    with own_network.inside():
        yield


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Chromium's executable, from JD_CHROMIUM or the PATH."""
    named = os.environ.get("JD_CHROMIUM")
    if named:
        return named
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("no Chromium: install one, or name it in JD_CHROMIUM")


@pytest.fixture(scope="module")
def playwright() -> Iterator[Any]:
    """What starts browsers.

    Not for longer: as long as it is there, its event loop runs in this thread, and others cannot.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def chromium(playwright: Any, chromium_path: str) -> Iterator[Any]:
    """A headless browser (playwright's Browser) for a module; what it has loaded is forgotten."""
    browser = playwright.chromium.launch(
        executable_path=chromium_path, headless=True, args=BROWSER_OPTIONS
    )
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the browser of a person keeps what it has loaded, and compiled, once."""
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def lab_browser(playwright: Any, chromium_path: str, profile: Path) -> Iterator[Any]:
    """A headless browser (a BrowserContext) whose later pages of JupyterLab take half the time."""
    context = playwright.chromium.launch_persistent_context(
        profile, executable_path=chromium_path, headless=True, args=BROWSER_OPTIONS
    )
    context.set_default_timeout(CELL_TIMEOUT_S * 1000)
    yield context
    context.close()


def serve_view(route: Any) -> None:
    """Answer what the page of one view asks for."""
    path = route.request.url.removeprefix(VIEW_ORIGIN)
    static = _STATIC / path.removeprefix("/")
    if path == "/joined.js":
        route.fulfill(body=joined_modules(), content_type=_TYPES[".js"])
    elif path in _SERVED:
        file, content_type = _SERVED[path]
        route.fulfill(body=file.read_text(encoding="utf-8"), content_type=content_type)
    elif static.suffix in _TYPES and static.parent == _STATIC and static.is_file():
        route.fulfill(body=static.read_text(encoding="utf-8"), content_type=_TYPES[static.suffix])
    else:
        route.fulfill(status=404, body="")


@pytest.fixture
def open_view(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Open a page with the topology view and a model that has no kernel: `window.model`.

    It shows a state at once where one is given. Nothing goes over a network. With `has_test_clock` the test moves the page on in time with
    `page.clock`. An error on a page fails the test.
    """
    contexts, problems = [], []

    def open_page(
        state: Topology | None = None,
        *,
        width: int = 960,
        height: int = 620,
        has_test_clock: bool = False,
        **options: Any,
    ) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        context.route("**/*", serve_view)
        if has_test_clock:
            # What a script takes is measured with the clock that goes on.
            context.add_init_script("window.realNow = performance.now.bind(performance);")
            page.clock.install(time=0)
        page.goto(f"{VIEW_ORIGIN}/")
        page.wait_for_function("window.isReady")
        if has_test_clock:
            # Else the time that a busy machine takes between two lines of a test counts as well.
            page.clock.pause_at(600)
        if state is not None:
            show(page, state)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture(scope="session")
def lab(
    chromium_path: str, tmp_path_factory: pytest.TempPathFactory, own_network: OwnNetwork
) -> Iterator[JupyterServer]:
    """One real JupyterLab for the session; at its end no process of it may be left."""
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    with own_network.inside():
        server = JupyterServer(tmp_path_factory.mktemp("lab"))
    yield server
    with own_network.inside():
        assert server.stop() == []


@pytest.fixture(scope="module")
def panel_lab(request: pytest.FixtureRequest) -> JupyterServer:
    """A JupyterLab that has the panel as its sources stand now."""
    problem = build_panel()
    if problem:
        say = pytest.fail if os.environ.get(PANEL_CHOICE) == "require" else pytest.skip
        say(f"the panel is not built: {problem}")
    lab: JupyterServer = request.getfixturevalue("lab")
    if not lab.has_panel:
        pytest.skip("JupyterLab was started before the panel was built: run these tests again")
    return lab


@contextlib.contextmanager
def opening_notebooks(
    server: JupyterServer, lab_browser: Any
) -> Iterator[Callable[..., LabNotebook]]:
    """Open notebooks (as their files say them) on a server, each with a kernel that is ready.

    Their first cells have run as far as `ran` says. Afterwards their kernels, and every cluster that a notebook left running, are ended.
    """
    pages: list[Any] = []

    def open_notebook(
        notebook: dict[str, Any], name: str, *, ran: int = 0, width: int = 1100, height: int = 1000
    ) -> LabNotebook:
        path = server.notebooks / f"{name}.ipynb"
        path.write_text(json.dumps(notebook), encoding="utf-8")
        pages.append(page := lab_browser.new_page())
        page.set_viewport_size({"width": width, "height": height})
        opened = LabNotebook(page, path)
        page.goto(server.address(path.name))
        opened.wait_for_kernel()
        for index in range(ran):
            opened.run(index)
        return opened

    try:
        yield open_notebook
    finally:
        for page in pages:
            page.close()
        server.forget()


@pytest.fixture
def open_notebook(lab: JupyterServer, lab_browser: Any) -> Iterator[Callable[..., LabNotebook]]:
    """Open notebooks in JupyterLab; their kernels and clusters end with the test."""
    with opening_notebooks(lab, lab_browser) as open_in_lab:
        yield open_in_lab


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """The folder for screenshots: JD_SCREENSHOTS, or one that pytest keeps for a while."""
    folder = Path(os.environ.get("JD_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
