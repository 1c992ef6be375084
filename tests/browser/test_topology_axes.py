"""Ranks of a cluster whose axes are named, arranged by these."""

from typing import Any

import pytest
from msgspec.structs import replace

from jupyter_dist.model.hosts.axes import Axes

from .topologies import STATES, a_call, a_cluster, a_host, an_engine, many, show, text_of

pytestmark = pytest.mark.browser

AXES = Axes(("data", "model"), (4, 2))
BOX = "Arrange by"


def two_hosts_with_axes(axes: Axes = AXES, **more: Any) -> Any:
    hosts = [
        a_host(f"node-{name}", [an_engine(first + i, i, STATES[i + 1], **more) for i in range(4)])
        for first, name in ((0, "a"), (4, "b"))
    ]
    return a_cluster(*hosts, axes=axes)


def places(page: Any) -> dict[int, tuple[int, int]]:
    """Where the seat of each rank is, as row and column."""
    found = page.evaluate(
        """() => [...document.querySelectorAll('[data-rank]')].map(seat => {
          const { x, y } = seat.getBoundingClientRect();
          return [Number(seat.dataset.rank), Math.round(x), Math.round(y)];
        })"""
    )
    columns = sorted({x for _, x, _ in found})
    rows = sorted({y for *_, y in found})
    return {rank: (rows.index(y), columns.index(x)) for rank, x, y in found}


def test_without_axes_there_is_nothing_to_choose(open_view: Any) -> None:
    page = open_view(two_hosts_with_axes(Axes()))
    assert page.get_by_label(BOX).is_hidden()
    show(page, two_hosts_with_axes())
    assert page.get_by_label(BOX).is_visible()
    assert page.locator("select >> option").all_inner_texts() == [
        "hosts",
        "data down, model across",
        "model down, data across",
    ]


def test_one_axis_goes_across_and_hosts_stay_frames(open_view: Any) -> None:
    page = open_view(two_hosts_with_axes())
    page.get_by_label(BOX).select_option("model")
    assert places(page) == {rank: divmod(rank, 2) for rank in range(8)}
    assert page.locator(".jd-grid .jd-host-box").count() == 2
    page.get_by_label(BOX).select_option("data")
    assert places(page) == {rank: (rank % 2, rank // 2) for rank in range(8)}
    grid = page.text_content(".jd-grid")
    assert all(words in grid for words in ("node-a", "node-b", "data=3", "model=1"))
    label = page.get_attribute('[data-rank="5"]', "aria-label")
    assert label.startswith("rank 5 (data=2, model=1) on node-b")
    page.get_by_label(BOX).select_option("")
    assert page.locator(".jd-grid .jd-host-box").count() == 0
    assert page.locator(".jd-host").count() == 2


def test_the_keyboard_chooses_and_walks_and_what_is_pointed_at_is_told(open_view: Any) -> None:
    page = open_view(two_hosts_with_axes())
    page.get_by_label(BOX).focus()
    page.keyboard.press("ArrowDown")
    assert page.get_by_label(BOX).input_value() == "model"
    page.locator('[data-rank="0"]').focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.rank") == "2"
    assert "data=1, model=0" in text_of(page, ".jd-detail")
    page.locator(".jd-grid .jd-small").first.hover()
    assert text_of(page, ".jd-detail").startswith("node-a")


def test_what_was_chosen_is_remembered_and_told_to_the_kernel(open_view: Any) -> None:
    page = open_view(two_hosts_with_axes())
    page.get_by_label(BOX).select_option("data")
    assert page.evaluate("model.sent") == [{"kind": "arrange", "across": "data"}]
    page.reload()
    page.wait_for_function("window.isReady")
    show(page, two_hosts_with_axes())
    assert page.get_by_label(BOX).input_value() == "data"
    assert page.evaluate("model.sent") == [{"kind": "arrange", "across": "data"}]
    show(page, two_hosts_with_axes(Axes(("all",), (8,))))
    assert page.get_by_label(BOX).input_value() == "", "it has no such axis"
    assert page.evaluate("model.sent.at(-1)") == {"kind": "arrange", "across": ""}


def test_calls_along_a_column_light_up_beside_it(open_view: Any) -> None:
    state = two_hosts_with_axes()
    hosts = [
        replace(
            host,
            engines=tuple(
                an_engine(
                    each.rank, each.local_rank, "collective",
                    collective=a_call("all_reduce", 3, group="0,2,4,6" if each.rank % 2 == 0 else "1,3,5,7"),
                )
                for each in host.engines
            ),
        )
        for host in state.hosts
    ]  # fmt: skip
    page = open_view(replace(state, hosts=tuple(hosts)))
    page.get_by_label(BOX).select_option("model")
    boxes = [flow.bounding_box() for flow in page.locator(".jd-flow").all()]
    assert len(boxes) == 2
    left, right = sorted(boxes, key=lambda box: box["x"])
    assert left["x"] + left["width"] < right["x"]


@pytest.mark.parametrize(("ranks", "width"), [(8, 320), (64, 320), (64, 1600), (512, 960)])
def test_it_fits_the_page(open_view: Any, ranks: int, width: int) -> None:
    state = replace(many(ranks), axes=Axes(("data", "model"), (ranks // 8, 8)))
    page = open_view(state, width=width)
    for across in ("model", "data"):
        page.get_by_label(BOX).select_option(across)
        assert page.locator("[data-rank]").count() == ranks
        assert page.evaluate("document.documentElement.scrollWidth") == width
        right = page.evaluate(
            "Math.max(...[...document.querySelectorAll('[data-rank]')].map(e => e.getBoundingClientRect().right))"
        )
        assert right <= width - 12
