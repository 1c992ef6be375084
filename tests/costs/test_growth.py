"""What the coordinator does for all ranks grows as their number does, and not faster.

A whole coordinator lives in this process with 64 to 4,096 ranks on hosts of eight, which speak by
relays, without sockets; what each event costs it is counted in steps (see steps.py) and in bytes
that it sends, or that come: exact on any machine. The growth is the slope between the two largest
numbers of ranks, both axes logarithmic: what each rank costs the same is 1.0, what each costs in
proportion to their number 2.0.

What is steeper today stands in growth.toml, which may only shrink. So do the steps of each event with
64 ranks, which REWRITE_GOLDEN=1 writes again. Not counted is what libzmq and gRPC do, nor how often
the loop wakes. The whole takes about 15 s and 650 MiB.
"""

import os
import sys
import tomllib
from collections import Counter
from math import inf, log
from pathlib import Path
from types import ModuleType

import pytest

from tests.costs.coordinator_in_process import in_process
from tests.costs.life import Life
from tests.costs.steps import Steps, counting_builtins, counting_walks, uncounted

RANKS = (64, 256, 1024, 4096)
MOST_SLOPE = 1.1
LOWERED_BY = 0.05
"""A slope that has become so much less is to be written into the list."""
PATH = Path(__file__).with_name("growth.toml")
KNOWN = tomllib.loads(PATH.read_text(encoding="utf-8"))
BUDGET = "[steps_with_64_ranks]"
MORE, LESS = 0.02, 0.1
"""Shares by which an event may have more steps than its budget, and less before that is lowered."""


@pytest.fixture(scope="module")
def lives():
    """What each event costs, by the number of ranks."""
    steps = Steps()
    with counting_walks(steps):
        return {ranks: live(ranks, steps) for ranks in RANKS}


def live(ranks, steps):
    with in_process(ranks) as cluster:
        return Life(cluster, steps).live()


def slope(costs):
    """Return the growth between the two largest numbers of ranks; 0.0 where nothing is spent."""
    (fewer, cost), (more, larger) = sorted(costs.items())[-2:]
    if not cost:
        return inf if larger else 0.0
    return round(log(larger / cost) / log(more / fewer), 2)


def find_fault(what, found, known):
    """Say what is wrong with a slope, given the one in the list (None: it is not there)."""
    if known is None:
        return f"{what} grows with slope {found}; {MOST_SLOPE} is allowed" * (found > MOST_SLOPE)
    if found > known:
        return f"{what} grows with slope {found}; growth.toml has {known}, which may only shrink"
    if found <= MOST_SLOPE:
        return f"{what} grows with slope {found} by now: take its line out of growth.toml"
    if found < known - LOWERED_BY:
        return f"{what} grows with slope {found} by now: write that for {known} into growth.toml"
    return ""


def steepest(costs, most=4):
    """Name the functions that have done most beyond what their share would be, with counts."""
    (fewer, before), (more, after) = sorted(costs.items())[-2:]
    excess = Counter({name: count - before[name] * more / fewer for name, count in after.items()})
    return "".join(
        f"\n    {name}: {before[name]:,} with {fewer} ranks, {after[name]:,} with {more}"
        for name, extra in excess.most_common(most)
        if extra > after[name] / 20
    )


@pytest.mark.slow
def test_steps_do_not_grow_faster_than_ranks(lives):
    faults = []
    for event in lives[RANKS[0]]:
        steps = {ranks: life[event].steps for ranks, life in lives.items()}
        totals = {ranks: each.total() for ranks, each in steps.items()}
        known = KNOWN["steps"].get(event)
        if fault := find_fault(f"steps of {event!r}", slope(totals), known):
            faults.append(f"{fault}\n  {totals}{steepest(steps)}")
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the budget is that of Python 3.11")
def test_no_event_takes_more_steps_than_its_budget(lives):
    counted = {event: cost.steps.total() for event, cost in lives[RANKS[0]].items()}
    if os.environ.get("REWRITE_GOLDEN"):
        head = PATH.read_text(encoding="utf-8").partition(BUDGET)[0].rstrip()
        lines = (f'"{event}" = {steps}\n' for event, steps in counted.items())
        PATH.write_text(f"{head}\n\n{BUDGET}\n{''.join(lines)}", encoding="utf-8")
        return
    budget = KNOWN[BUDGET.strip("[]")]
    assert counted.keys() == budget.keys()
    faults = [
        f"{event!r} takes {steps} steps; growth.toml has {budget[event]}"
        for event, steps in counted.items()
        if not budget[event] * (1 - LESS) - 1 <= steps <= budget[event] * (1 + MORE) + 1
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_bytes_do_not_grow_faster_than_ranks(lives):
    faults = []
    for event in lives[RANKS[0]]:
        moved = {ranks: life[event].moved_bytes for ranks, life in lives.items()}
        if fault := find_fault(f"bytes of {event!r}", slope(moved), KNOWN["bytes"].get(event)):
            faults.append(f"{fault}\n  {moved}")
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_the_list_names_events_that_there_are(lives):
    assert {*KNOWN["steps"], *KNOWN["bytes"]} <= set(lives[RANKS[0]])


@pytest.mark.parametrize(
    ("found", "known", "word"),
    [
        (1.11, None, "is allowed"),
        (1.51, 1.5, "may only shrink"),
        (1.1, 1.5, "take its line out"),
        (1.44, 1.5, "write that"),
        (1.1, None, ""),
        (1.45, 1.5, ""),
    ],
)
def test_a_slope_is_held_to_the_list(found, known, word):
    fault = find_fault("x", found, known)
    assert word in fault
    assert bool(fault) == bool(word)


LOOPS = """
from dataclasses import dataclass

@dataclass(frozen=True, order=True)
class Rank:
    number: int

def search(ranks): return next((rank for rank in ranks if rank.number < 0), None)
def copy(ranks): return set(ranks)
def compare(ranks): return set(ranks) >= set(ranks)
def order(ranks): return sorted(ranks)
def find(ranks): return Rank(-1) in ranks
"""


@pytest.mark.parametrize("name", ["search", "copy", "compare", "order", "find"])
def test_loops_and_what_c_code_walks_are_steps(monkeypatch, name):
    monkeypatch.setattr("tests.costs.steps.PACKAGE", "loops")
    steps = Steps()
    loops = ModuleType("loops")
    monkeypatch.setitem(sys.modules, "loops", loops)
    vars(loops).update(counting_builtins(steps))
    exec(LOOPS, vars(loops))
    counts = []
    for number in (100, 200):
        ranks = [loops.Rank(rank) for rank in range(number)]
        with steps:
            getattr(loops, name)(ranks)
        counts.append(steps.by_function().total())
    assert counts[1] - counts[0] >= 100


def test_what_the_other_end_does_is_no_step(monkeypatch):
    monkeypatch.setattr("tests.costs.steps.PACKAGE", __name__)
    with (steps := Steps()):
        with uncounted():
            steepest({1: Counter(a=1), 2: Counter(a=2)})
        slope({1: 1, 2: 2})
    assert set(steps.by_function()) == {"test_growth: slope"}
