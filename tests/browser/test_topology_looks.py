"""How the topology view looks: nothing clipped, nothing over anything else, readable for all."""

from collections.abc import Callable, Iterator
from itertools import count, product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_dist.model.hosts.topology import Topology
from tests.matrix import each_value_once

from .conftest import VIEW_ORIGIN, serve_view
from .topologies import (
    BRIDGED_LINKS,
    CUBE_LINKS,
    PCIE_LINKS,
    hung,
    large_with_trouble,
    local,
    lost,
    made_hgx,
    many,
    many_with_gpus,
    recorded_hgx,
    shared_and_several,
    show,
    three_hosts,
    two_hosts,
    with_gpus,
)

pytestmark = pytest.mark.browser

OpenView = Callable[..., Any]
PageFor = Callable[[str, int], Any]
_SEQUENCES = count(1)
AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
PICTURES: dict[str, tuple[Callable[[], Topology], int]] = {
    "four_local": (local, 760),
    "three_hosts": (three_hosts, 960),
    "two_hgx": (recorded_hgx, 1000),
    "odd_gpus": (made_hgx, 1000),
    "hang": (hung, 960),
    "lost_rank": (lost, 960),
    "all_states": (two_hosts, 960),
    "pcie": (lambda: with_gpus(PCIE_LINKS), 960),
    "bridged": (lambda: with_gpus(BRIDGED_LINKS, ranks=6), 960),
    "cube": (lambda: with_gpus(CUBE_LINKS, ranks=7), 960),
    "shared_gpus": (shared_and_several, 700),
    "panel_hosts": (hung, 300),
    "panel_hgx": (recorded_hgx, 300),
    "panel_pcie": (lambda: with_gpus(PCIE_LINKS), 284),
    "panel_narrow": (hung, 240),
    "panel_many": (lambda: many(128), 300),
    "panel_64": (lambda: many(64), 320),
    "panel_512": (lambda: large_with_trouble(512), 320),
    "panel_4096": (large_with_trouble, 320),
    "ranks_512": (lambda: many_with_gpus(512), 1000),
    "ranks_4096": (large_with_trouble, 1400),
}
# All that a person would call clipped or overlapping, as sentences.
BLEMISHES = """() => {
  const found = [];
  const all = (of, within = document) => [...within.querySelectorAll(of)];
  const frame = (node) => node.getBoundingClientRect();
  const called = (node) => `${node.getAttribute('class')} "${node.textContent || node.dataset.key || ''}"`;
  const isSeen = (node) => node.textContent && node.getAttribute('opacity') !== '0';
  const isOver = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.6
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.6;
  const reachesOut = (a, b) => a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1
    || a.bottom > b.bottom + 1;
  const apart = (nodes) => nodes.forEach((a, i) => nodes.slice(i + 1).forEach((b) => {
    if (isOver(frame(a), frame(b))) found.push(`${called(a)} lies over ${called(b)}`);
  }));
  const within = (nodes, outer) => nodes.forEach((node) => {
    if (reachesOut(frame(node), frame(outer))) found.push(`${called(node)} reaches out of ${called(outer)}`);
  });
  for (const cell of all('.jd-cell')) {
    const words = all('text', cell).filter(isSeen);
    within(words, cell.querySelector('.jd-box'));
    // Letters' boxes are higher than letters: lines may touch.
    for (const a of words) for (const b of words) {
      const [p, q] = [frame(a), frame(b)];
      if (a !== b && p.left < q.left && Math.abs(p.bottom - q.bottom) < 5 && p.right > q.left + 0.6) {
        found.push(`${called(a)} runs into ${called(b)}`);
      }
    }
  }
  for (const host of all('.jd-host')) {
    const box = host.querySelector('.jd-host-box');
    const words = all('.jd-host-head text, .jd-caption', host).filter(isSeen);
    within([...words, ...all('.jd-box', host)], box);
    apart(words);
    apart([...all('.jd-box', host), ...all('.jd-caption', host)]);
    apart(all('.jd-port rect, .jd-caption', host));
    for (const port of all('.jd-port', host)) within(all('text', port), port.querySelector('rect'));
  }
  for (const group of all('.jd-group')) {
    within([...all('text', group).filter(isSeen), ...all('.jd-tiles', group)], group.querySelector('.jd-group-box'));
    apart(all('text', group));
  }
  apart(all('.jd-host-box, .jd-group-box'));
  apart([...all('.jd-link-plate'), ...all('.jd-box')]);
  const root = document.querySelector('.jd-topology');
  if (root.scrollWidth > root.clientWidth) found.push('the view is wider than its place');
  const parts = all('.jd-host-box, .jd-group-box, .jd-link-plate, .jd-head button, .jd-filter input, .jd-detail');
  within(parts.filter((node) => node.getClientRects().length), root);
  return found;
}"""
AXE_FINDS = """async () => (await axe.run('.jd-topology')).violations
  .map(({id, nodes}) => `${id}: ${nodes.map((node) => node.html).join(' | ').slice(0, 400)}`)"""


@pytest.fixture(scope="module")
def page_for(chromium: Any) -> Iterator[PageFor]:
    """A page of this scheme and width, opened once: so many pictures would open many."""
    contexts: list[Any] = []
    pages: dict[str, Any] = {}
    problems: list[str] = []

    def sized(scheme: str, width: int) -> Any:
        if scheme not in pages:
            contexts.append(chromium.new_context(color_scheme=scheme))
            contexts[-1].route("**/*", serve_view)
            pages[scheme] = contexts[-1].new_page()
            pages[scheme].on("pageerror", lambda error: problems.append(str(error)))
            pages[scheme].goto(f"{VIEW_ORIGIN}/")
            pages[scheme].wait_for_function("window.isReady")
        pages[scheme].set_viewport_size({"width": width, "height": 620})
        return pages[scheme]

    yield sized
    for context in contexts:
        context.close()
    assert problems == []


def show_drawn(page: Any, topology: Topology) -> None:
    """Show it and wait for its picture: a large one is drawn a little later."""
    sequence = next(_SEQUENCES)
    show(page, msgspec.structs.replace(topology, sequence=sequence))
    page.wait_for_selector(f'.jd-topology[data-sequence="{sequence}"]')


@pytest.mark.parametrize(
    ("name", "scheme"), each_value_once([*product(PICTURES, ["light", "dark"])])
)
def test_nothing_is_clipped_and_nothing_lies_over_anything_else(
    page_for: PageFor, pictures: Path, name: str, scheme: str
) -> None:
    make, width = PICTURES[name]
    page = page_for(scheme, width)
    show_drawn(page, make())
    page.focus('[data-key][tabindex="0"]')
    page.mouse.move(1, 1)
    page.screenshot(path=pictures / f"topology_{name}_{scheme}.png", full_page=True)
    assert page.evaluate(BLEMISHES) == []


@pytest.mark.parametrize(("scheme", "ground"), [("light", (255,) * 3), ("dark", (22, 22, 24))])
def test_ground_and_text_follow_the_page(
    open_view: OpenView, scheme: str, ground: tuple[int, ...]
) -> None:
    page = open_view(local(), color_scheme=scheme)
    colour = "getComputedStyle(document.querySelector('%s')).%s"
    assert page.evaluate(colour % (".jd-topology", "backgroundColor")) == f"rgb{ground}"
    page.evaluate(
        """() => { document.documentElement.style.setProperty('--jp-layout-color0', 'rgb(1, 2, 3)');
          document.documentElement.style.setProperty('--jp-ui-font-color1', 'rgb(250, 251, 252)'); }"""
    )
    assert page.evaluate(colour % (".jd-topology", "backgroundColor")) == "rgb(1, 2, 3)"
    assert page.evaluate(colour % (".jd-rank", "fill")) == "rgb(250, 251, 252)"


def test_nothing_moves_where_people_want_less_motion(open_view: OpenView) -> None:
    moving = """() => [...document.querySelectorAll('.jd-topology *')]
      .filter((node) => getComputedStyle(node).animationName !== 'none').length"""
    page = open_view(three_hosts())
    assert page.evaluate(moving) > 0
    calm = open_view(three_hosts(), reduced_motion="reduce")
    assert calm.evaluate(moving) == 0
    assert calm.locator(".jd-flow").count() == 4, "what is lit stays lit"


def test_forced_colours_leave_shapes_that_tell_states_apart(
    open_view: OpenView, pictures: Path
) -> None:
    page = open_view(two_hosts(), forced_colors="active")
    page.screenshot(path=pictures / "topology_forced_colours.png", full_page=True)
    looks = page.evaluate(
        """() => [...document.querySelectorAll('.jd-cell')].map((cell) => {
          const glyph = cell.querySelector('.jd-glyph');
          const box = getComputedStyle(cell.querySelector('.jd-box'));
          return { state: cell.dataset.state, ink: box.stroke,
            ground: getComputedStyle(cell.querySelector('.jd-box')).fill,
            shape: glyph.getAttribute('d') + getComputedStyle(glyph).strokeDasharray };
        })"""
    )
    by_state = {look["state"]: look for look in looks}
    assert len({look["shape"] for look in by_state.values()}) == len(by_state) == 6
    assert len({look["ink"] for look in looks}) == 1
    assert all(look["ink"] != look["ground"] for look in looks)


def test_axe_finds_no_violation_before_any_host_is_there(page_for: PageFor) -> None:
    if not AXE.exists():
        pytest.skip("no axe-core: run `npm ci` in labextension")
    page = page_for("light", 960)
    show(page, Topology(cluster="demo"))
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(AXE_FINDS) == []


@pytest.mark.parametrize(
    ("name", "scheme"),
    each_value_once(
        [*product(["odd_gpus", "hang", "all_states", "ranks_512", "ranks_4096"], ["light", "dark"])]
    ),
)
def test_axe_finds_no_violation(page_for: PageFor, name: str, scheme: str) -> None:
    if not AXE.exists():
        pytest.skip("no axe-core: run `npm ci` in labextension")
    make, width = PICTURES[name]
    page = page_for(scheme, width)
    show_drawn(page, make())
    page.focus('[data-key][tabindex="0"]')
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(AXE_FINDS) == []
