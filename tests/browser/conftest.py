"""A real browser for the tests that need one; without it they say why they are skipped."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_HERE = Path(__file__).parent
_STATIC = _HERE.parents[1] / "jupyter_dist" / "views" / "static"
_ORIGIN = "http://view.test"
_SERVED = {
    "/": (_HERE / "harness.html", "text/html"),
    "/topology.js": (_STATIC / "topology.js", "text/javascript"),
    "/topology.css": (_STATIC / "topology.css", "text/css"),
}


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


@pytest.fixture(scope="session")
def chromium(chromium_path: str) -> Iterator[Any]:
    """A headless browser (playwright's Browser) for the whole session."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path, headless=True, args=["--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


def _serve(route: Any) -> None:
    path = route.request.url.removeprefix(_ORIGIN)
    if path not in _SERVED:
        route.fulfill(status=404, body="")
        return
    file, content_type = _SERVED[path]
    route.fulfill(body=file.read_text(encoding="utf-8"), content_type=content_type)


@pytest.fixture
def open_view(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Open a page with the topology view and a model that has no kernel: `window.model`.

    Nothing goes over a network. With `has_test_clock` the test moves the page on in time with
    `page.clock`. An error on a page fails the test.
    """
    contexts, problems = [], []

    def open_page(
        width: int = 960, height: int = 620, *, has_test_clock: bool = False, **options: Any
    ) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        context.route("**/*", _serve)
        if has_test_clock:
            page.clock.install()
        page.goto(f"{_ORIGIN}/")
        page.wait_for_function("window.isReady")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []
