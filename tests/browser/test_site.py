"""The site of `make docs`, from the disk: nothing is asked of a network, and axe finds nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.matrix import only

from .test_requests_view import AXE

pytestmark = pytest.mark.browser

SITE = Path(__file__).parents[2] / "out" / "site"
PAGES = (
    "docs/index.html",
    "docs/gallery.html",
    "docs/reference/json.html",
    "notebooks/01_first_cell.html",
    "search.html",
)
"""One of each kind; on the long pages of the reference axe works for half a minute."""


@pytest.fixture(params=only(["light"], ["light", "dark"], at_night=["dark"]))
def page(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page of 320 px that may load files only, in both themes."""
    if not (SITE / "index.html").is_file():
        pytest.skip("the site is not built: `make docs`")
    context = chromium.new_context(
        color_scheme=request.param, viewport={"width": 320, "height": 800}
    )
    asked: list[str] = []
    page = context.new_page()
    page.on("request", lambda sent: asked.append(sent.url))
    yield page
    context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def open_page(page: Any, address: str) -> None:
    page.goto(f"{SITE.as_uri()}/{address}")


@pytest.mark.slow
def test_pages_are_fit_for_everyone(page: Any) -> None:
    if not AXE.exists():
        pytest.skip("no axe-core: run `npm ci` in labextension")
    found = []
    for address in PAGES:
        open_page(page, address)
        page.add_script_tag(path=AXE)
        found += page.evaluate(
            """async () => (await axe.run()).violations.flatMap(
              ({ id, nodes }) => nodes.map(node => `${id}: ${node.html} ${node.failureSummary}`))"""
        )
        is_wider = "document.documentElement.scrollWidth > innerWidth"
        assert not page.evaluate(is_wider), address
    assert found == []


def test_pictures_follow_the_theme(page: Any) -> None:
    open_page(page, "docs/gallery.html")
    theme = page.get_attribute("html", "data-theme")
    shown = [
        image.get_attribute("src")
        for image in page.locator("article img[src*='two_hgx_hosts']").all()
        if image.is_visible()
    ]
    assert [Path(str(source)).stem for source in shown] == [f"two_hgx_hosts_{theme}"]


def test_a_first_use_of_a_word_leads_to_the_glossary(page: Any) -> None:
    open_page(page, "docs/explanation/failures.html")
    page.click("a.term:text-is('crash card')")
    assert page.inner_text(":target h2").startswith("crash card")


def test_a_word_is_found_and_leads_to_its_page(page: Any) -> None:
    open_page(page, "index.html")
    page.wait_for_url("**/docs/index.html")
    open_page(page, "search.html?q=peer_failed")
    page.click("#search-results a[href*='glossary']")
    assert "peer_failed" in page.inner_text("article")
