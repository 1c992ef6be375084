"""Thousands of cells: what a rank keeps of them does not grow."""

import re
from pathlib import Path

import pytest

LIMIT_KB = 100
"""In the fourth thousand; 20 is what they keep, the rest is for an allocator that rounds up. Sources
of the last 1,256 cells are kept; what was freed of older ones fits the next ones only by and by."""


def resident_kb(pid):
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))


@pytest.mark.slow
def test_a_rank_does_not_grow_with_the_number_of_its_cells(start):
    cluster = start("localhost:1")
    (pid,) = (engine.pid for engine in cluster.topology().engines)
    seen = []
    for number in range(4000):
        if number >= 3000 and number % 1000 == 0:
            seen.append(resident_kb(pid))
        cluster.run(f"def twice(x): return 2 * x\nprint({number})\ntwice({number})")
    seen.append(resident_kb(pid))
    assert seen[1] - seen[0] <= LIMIT_KB
    files = cluster.run("import os; len(os.listdir(get_ipython().compile.source_dir))")
    assert int(files[0].value_repr) < 1400
    error = cluster.run("twice(None)")[0].error
    shown = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))
    assert "----> 1 def twice(x): return 2 * x" in shown
