"""What cells, lines, pushes, starts, seconds in cells and idle ones cost is at most what `budget.toml` allows."""

import shutil
import sys

import pytest

from . import budget
from .counting import RANKS, count_all


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the budget is that of Python 3.11")
def test_nothing_costs_more_than_its_budget():
    text = budget.PATH.read_text(encoding="utf-8")
    counts = [count_all()]
    for _ in range(budget.MOST_COUNTS - 1):
        problems = budget.problems(text, budget.least(counts))
        counts.append(count_all(RANKS & {ranks for _, ranks, *_ in problems}))
    least = budget.least(counts)
    print(budget.renewed(text, least)[text.index("[start]") :])
    assert list(budget.problems(text, least).values()) == []
    if not shutil.which("strace"):
        pytest.skip("all but system calls: strace is missing (Debian: apt-get install strace)")
