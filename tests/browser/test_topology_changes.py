"""A page that receives changes shows the same as one that receives the whole each time."""

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.views.topology.changes import Teller, tell_whole
from tests.matrix import only

from .topologies import (
    HGX_LINKS,
    large_with_trouble,
    local,
    lost,
    many_with_gpus,
    shared_and_several,
    text_content,
    three_hosts,
    two_hosts,
    with_gpus,
)

pytestmark = pytest.mark.browser

OpenView = Callable[..., Any]
TAKE_BOTH = """async pairs => {
  const { createReceiver } = await import('/changes.js');
  const one = createReceiver();
  const ages = ['beat_age_s', 'busy_s', 'seconds', 'sampled_s', 'xid_age_s'];
  const plain = (state) => JSON.stringify(state, (name, value) => {
    if (ages.includes(name)) return Math.round(value / 2);
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
  return JSON.parse(pairs).map(([told, whole]) => plain(one.take(told)) === plain(createReceiver().take(whole)));
}"""
TELL = "told => model.tell(JSON.parse(told))"
LONGEST_FIRST, LONGEST = 14, 7
"""CPU of a task, in times that it takes to parse a message with all that 4,096 ranks show: some 8 ms
where a task may take 50 (benchmarks/topology_view.py), and more on slower machines."""


def in_order() -> list[Topology]:
    """Clusters that differ in hosts, ranks, GPUs, calls and states."""
    makers = [local, two_hosts, three_hosts, lost, shared_and_several, lambda: with_gpus(HGX_LINKS)]
    return [a() for pair in itertools.permutations(makers, 2) for a in pair]


def test_changes_lead_to_what_the_whole_is(open_view: OpenView) -> None:
    page, teller, pairs = open_view(), Teller(), []
    for number, topology in enumerate(in_order(), 1):
        pairs.append([teller.tell(topology, 0.01 * number), tell_whole(topology, number)])
    same = page.evaluate(TAKE_BOTH, msgspec.json.encode(pairs).decode())
    assert same == [True] * len(pairs)


def test_a_view_that_missed_a_change_asks_for_the_whole_and_shows_nothing_mixed(
    open_view: OpenView,
) -> None:
    page, teller = open_view(has_test_clock=True), Teller()

    def tell(told: Any) -> None:
        page.evaluate(TELL, msgspec.json.encode(told).decode())

    tell(teller.tell(local(("idle",) * 4), 1.0))
    assert text_content(page, ".jd-counts") == "4 idle"
    missed = teller.tell(local(("busy",) * 4), 2.0)
    tell(teller.tell(local(("busy", "busy", "busy", "lost")), 3.0))
    tell(teller.tell(local(("busy", "busy", "lost", "lost")), 4.0))
    assert text_content(page, ".jd-counts") == "4 idle"
    assert page.evaluate("model.sent") == [{"kind": "whole"}], "it asks once"
    tell(missed)
    assert text_content(page, ".jd-counts") == "4 idle"
    tell(teller.whole())
    assert text_content(page, ".jd-counts") == "2 busy · 2 lost"
    tell(teller.tell(local(("idle",) * 4), 5.0))
    assert text_content(page, ".jd-counts") == "4 idle"


def test_a_group_of_hosts_shows_what_has_changed_of_one(open_view: OpenView) -> None:
    page, teller, well = open_view(has_test_clock=True), Teller(), many_with_gpus(520)
    hosts, at = list(well.hosts), 37 // 8
    engines = list(hosts[at].engines)
    engines[37 % 8] = msgspec.structs.replace(engines[37 % 8], state="lost")
    hosts[at] = msgspec.structs.replace(hosts[at], engines=tuple(engines))
    hurt = msgspec.structs.replace(well, hosts=tuple(hosts))
    for number, topology in enumerate((well, hurt, well)):
        told = teller.tell(topology, 1.0 + number)
        page.evaluate(TELL, msgspec.json.encode(told).decode())
        page.clock.run_for(1000)
        assert ("rank 37 lost" in text_content(page, ".jd-group-words")) == (topology is hurt)


class Tasks:
    """The CPU time of a page's tasks: what else the machine does at that moment does not count."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def during(self, script: str, *values: Any) -> float:
        """Run a script; returns how many ms all tasks took until it was over."""
        before_s = self._total_s()
        self._page.evaluate(script, *values)
        return 1000 * (self._total_s() - before_s)

    def _total_s(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", only([large_with_trouble], [large_with_trouble, many_with_gpus], [many_with_gpus])
)
def test_4096_ranks_whose_numbers_all_change_are_told_without_a_long_task(
    open_view: OpenView, make: Callable[..., Any]
) -> None:
    teller = Teller()
    told = [
        msgspec.json.encode(teller.tell(make(4096, tick), tick / 2)).decode() for tick in range(6)
    ]
    print(
        f"{make.__name__}: whole {len(told[0]):,} bytes, changes {[len(each) for each in told[1:]]}"
    )
    firsts, others = [], []
    for _ in range(3):
        page = open_view(width=1400, height=900)
        page.evaluate("told => { window.told = told; }", told)
        tasks, took = Tasks(page), []
        parse_ms = min(tasks.during("() => { JSON.parse(told[0]); }") for _ in range(5))
        for number in range(len(told)):
            page.evaluate("() => new Promise((done) => setTimeout(done, 520))")
            taken_ms = tasks.during("number => model.tell(JSON.parse(told[number]))", number)
            drawn_ms = tasks.during("() => new Promise((done) => setTimeout(done, 200))")
            took.append(max(taken_ms, drawn_ms) / parse_ms)
        page.close()
        firsts.append(took[0])
        others += took[1:]
        print(f"parsing {parse_ms:.1f} ms; the longer of two tasks, in that: {took}")
        if firsts[-1] < LONGEST_FIRST and max(others) < LONGEST:
            break
    assert min(firsts) < LONGEST_FIRST
    assert sorted(others)[len(others) // 2] < LONGEST
