"""What cells, lines, pushes, starts, seconds in cells and idle ones cost is at most what `budget.toml` allows."""

import shutil
import sys

import pytest

from . import budget
from .counting import count_all


# It counts up to three times, each of which takes a minute on a slow machine.
@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the budget is that of Python 3.11")
def test_nothing_costs_more_than_its_budget():
    text = budget.PATH.read_text(encoding="utf-8")
    counts = []
    while len(counts) < budget.MOST_COUNTS:
        counts.append(count_all())
        problems = budget.problems(text, budget.least(counts))
        if not problems:
            break
    print(budget.renewed(text, budget.least(counts))[text.index("[start]") :])
    assert problems == []
    if not shutil.which("strace"):
        pytest.skip("all but system calls: strace is missing (Debian: apt-get install strace)")
