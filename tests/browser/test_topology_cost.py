"""What the topology view costs a page: script, nodes and bytes, with 512 ranks at 4 Hz."""

import statistics
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jupyter_dist.views.topology.script_modules import joined_modules, joined_styles
from tests.matrix import only

from .topologies import many, many_with_gpus, show

pytestmark = pytest.mark.browser

OpenView = Callable[..., Any]
PAUSE_MS = 510  # between two drawings of a large cluster there are 500
MEASURE = """tick => {
  // What the update before has left to lay out is not script of this one.
  document.querySelector('.jd-topology').getBoundingClientRect();
  const start = realNow(); model.show(states[tick]); return realNow() - start; }"""
# 10 ms is the aim, which benchmarks/topology_view.py measures on a quiet machine. A shared one is
# slower, so that the quickest update counts: were nodes made again, that one would be slow as well.
SCRIPT_BOUND_MS = 40


@pytest.mark.parametrize("make", only([many], [many, many_with_gpus], at_night=[many_with_gpus]))
def test_an_update_of_512_ranks_is_quick(open_view: OpenView, make: Callable[..., Any]) -> None:
    page = open_view(make(512), width=1600, height=900, has_test_clock=True)
    states = msgspec.json.encode([make(512, tick) for tick in range(1, 22)]).decode()
    page.evaluate("states => { window.states = JSON.parse(states); }", states)
    times_ms = []
    for tick in range(21):
        page.clock.run_for(PAUSE_MS)
        times_ms.append(page.evaluate(MEASURE, tick))
        assert page.get_attribute(".jd-topology", "data-sequence") == str(tick + 1)
    print(f"512 ranks: {statistics.median(times_ms):.1f} ms of script per update (median)")
    assert page.locator("[data-rank]").count() == 512
    assert min(times_ms) < SCRIPT_BOUND_MS, times_ms


def test_an_update_makes_no_nodes_and_writes_only_what_changed(open_view: OpenView) -> None:
    page = open_view(many_with_gpus(512, 1), width=1600, height=900, has_test_clock=True)
    page.clock.run_for(PAUSE_MS)
    page.evaluate(
        """() => { window.made = 0; window.writes = 0;
          new MutationObserver((records) => records.forEach(({ type, addedNodes }) => {
            if (type === 'attributes') writes += 1;
            made += [...addedNodes].filter((node) => node.nodeType === 1).length;
          })).observe(document.querySelector('.jd-drawing'),
            { attributes: true, childList: true, subtree: true }); }"""
    )
    show(page, many_with_gpus(512, 1))
    assert page.evaluate("[made, writes]") == [0, 0]
    page.clock.run_for(PAUSE_MS)
    show(page, many_with_gpus(512, 2))
    made, writes = page.evaluate("[made, writes]")
    assert made == 0
    # State, glyph, label and the height of the filling: four for each rank at most.
    assert 512 < writes <= 4 * 512 + 64 * 4


def test_a_page_loads_at_most_112_kb() -> None:
    script, styles = (len(text.encode()) for text in (joined_modules(), joined_styles()))
    print(f"script {script / 1000:.1f} kB, styles {styles / 1000:.1f} kB")
    assert script + styles <= 112_000
