"""How the tests see that this machine is busy."""

import os
import subprocess
import sys

import pytest

from tests.patience import PRESSURE, Stopwatch

BURN = "import time\nend_s = time.process_time() + 0.3\nwhile time.process_time() < end_s: pass"


@pytest.mark.skipif(not PRESSURE.exists(), reason="this Linux does not tell who waits for a core")
def test_more_work_than_cores_is_seen():
    watch = Stopwatch()
    count = 2 * len(os.sched_getaffinity(0))
    burning = [subprocess.Popen([sys.executable, "-S", "-c", BURN]) for _ in range(count)]
    assert [process.wait(60) for process in burning] == [0] * count
    spell = watch.spell()
    assert spell.took_s > 0.5, "two and more on each core"
    assert 0.15 < spell.stalled_s <= spell.took_s
