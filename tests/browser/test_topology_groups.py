"""The topology view of clusters that are too large, or whose place is too narrow, for a seat each."""

from collections.abc import Callable
from typing import Any

import pytest

from .topologies import (
    STATES,
    a_cluster,
    a_host,
    an_engine,
    large_with_trouble,
    many,
    show,
    text_of,
)

pytestmark = pytest.mark.browser

OpenView = Callable[..., Any]


@pytest.fixture
def open_large(open_view: OpenView) -> OpenView:
    """Open a page with a large cluster, and wait for its picture."""

    def open_page(ranks: int = 4096, width: int = 1400) -> Any:
        page = open_view(large_with_trouble(ranks), width=width)
        page.wait_for_selector(".jd-group")
        return page

    return open_page


LOST, WAITING, AWAITED = 37, 80, 96
FOCUSED = "document.activeElement.getAttribute('aria-label')"


@pytest.mark.parametrize(("width", "dense"), [(320, 64), (1000, 0)])
def test_64_ranks_are_drawn_small_where_there_is_little_room(
    open_view: OpenView, width: int, dense: int
) -> None:
    page = open_view(many(64), width=width)
    assert page.locator("[data-rank]").count() == 64
    assert page.locator(".jd-dense").count() == dense
    assert page.locator(".jd-filter").is_visible() is (dense > 0)
    assert page.evaluate("document.querySelector('.jd-drawing').clientHeight") < 1500


@pytest.mark.parametrize(
    ("ranks", "width", "groups"), [(4096, 1400, 32), (520, 1400, 5), (512, 320, 4)]
)
def test_what_has_no_room_for_a_seat_each_is_drawn_in_groups_of_hosts(
    open_large: OpenView, ranks: int, width: int, groups: int
) -> None:
    page = open_large(ranks, width)
    assert page.locator(".jd-group").count() == groups
    assert page.locator("[data-rank]").count() == 0
    assert page.evaluate("document.querySelectorAll('.jd-topology *').length") < 500


def test_what_is_lost_hangs_or_is_awaited_is_seen_and_heard_at_once(open_large: OpenView) -> None:
    page = open_large()
    assert page.locator(".jd-group[data-alarm=lost]").count() == 1
    assert page.locator(".jd-group[data-alarm=odd]").count() == 1, "a GPU has failed"
    assert page.locator(".jd-group[data-alarm=none]").count() == 30
    first = page.locator(".jd-group").first
    words = first.locator("title").text_content()
    assert words == "node-000–015: rank 37 lost · ranks 80-95 hung? · rank 96 awaited · 111 busy"  # noqa: RUF001
    label = first.get_attribute("aria-label")
    for said in (
        "ranks 37 lost",
        "ranks 80-95 hung?",
        "ranks 96 awaited",
        "111 working",
        "ranks 0-127",
    ):
        assert said in label
    page.hover(".jd-group >> nth=0")
    first.focus()
    page.mouse.move(1, 1)
    told = text_of(page, ".jd-detail")
    assert "rank 37 on node-004 lost: killed by signal 9" in told
    assert "and 14 more" in told


def test_each_rank_is_reached_with_keys_and_opened(open_large: OpenView) -> None:
    page = open_large()
    page.focus('.jd-group[tabindex="0"]')
    page.keyboard.press("ArrowRight")
    assert page.evaluate(FOCUSED).startswith(
        "hosts node-016 to node-031, ranks 128-255: 128 working"
    )
    page.keyboard.press("Enter")
    walked = []
    for _ in range(128):
        page.keyboard.press("ArrowRight")
        walked.append(page.evaluate("+document.activeElement.dataset.rank"))
    assert walked == list(range(128, 256))
    page.keyboard.press("Enter")
    assert page.evaluate("model.sent.at(-1)")["rank"] == 255
    page.keyboard.press("Escape")
    assert page.evaluate("+document.activeElement.dataset.rank") == 255
    page.keyboard.press("ArrowRight")
    assert page.evaluate(FOCUSED).startswith("hosts node-032 to node-047")
    page.keyboard.press("Enter")
    assert page.locator("[data-rank]").count() == 128, "one group is open at a time"
    page.keyboard.press(" ")
    assert page.locator("[data-rank]").count() == 0
    assert page.evaluate(FOCUSED).endswith("Enter shows each")


def test_the_rank_of_a_tile_is_told_where_the_pointer_is(open_large: OpenView) -> None:
    page = open_large()
    box = page.locator(".jd-group >> nth=0").locator("[data-state=lost]").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert text_of(page, ".jd-detail").startswith(f"rank {LOST} · on node-004")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.locator(f'[data-rank="{LOST}"][data-state="lost"]').count() == 1


def test_tiles_of_each_state_have_a_shape_of_their_own(open_view: OpenView) -> None:
    hosts = [a_host(f"n{i}", [an_engine(i, 0, STATES[i % 7])]) for i in range(70)]
    page = open_view(a_cluster(*hosts), width=1400)
    shapes = page.evaluate(
        """() => [...document.querySelectorAll('.jd-tiles')].map((node) => [node.dataset.state,
          node.getAttribute('d').slice(1).split('M')[0].replace(/^[^a-z]+/, '') + getComputedStyle(node).fill])"""
    )
    assert {state for state, _ in shapes} == set(STATES)
    assert len({shape for _, shape in shapes}) == len(STATES)


def test_a_state_that_changes_moves_no_tile_and_makes_no_node(open_view: OpenView) -> None:
    page = open_view(large_with_trouble(tick=1), width=1400, has_test_clock=True)
    page.clock.run_for(10)
    page.evaluate("window.before = [...document.querySelectorAll('.jd-drawing *')]")
    page.clock.run_for(600)
    show(page, large_with_trouble(tick=2))
    page.clock.run_for(10)
    assert page.get_attribute(".jd-topology", "data-sequence") == "2"
    assert page.evaluate(
        """() => { const now = [...document.querySelectorAll('.jd-drawing *')];
          return now.length === before.length && now.every((node, i) => node === before[i]); }"""
    )


def test_a_picked_rank_of_a_large_cluster_is_drawn_in_full(open_large: OpenView) -> None:
    page = open_large()
    page.get_by_label("Show ranks").fill(f"{LOST},{WAITING}-{AWAITED}")
    assert page.locator("[data-rank]").count() == 18
    assert page.locator(".jd-group, .jd-dense").count() == 0
    page.get_by_label("Show ranks").fill("")
    page.wait_for_selector(".jd-group")
    assert page.locator(".jd-group").count() == 32
