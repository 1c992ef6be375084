import subprocess
import sys

import psutil
import pytest

USE = "import sys, time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\nsys.stdin.read()"
BELOW = f"""
import subprocess, sys
for name in ("jupyter_dist.agent", "another"):
    subprocess.Popen([sys.executable, "-c", {USE!r}, name])
sys.stdin.read()
"""


@pytest.fixture
def idleness(benchmark_module):
    return benchmark_module("idleness")


def test_all_processes_below_one_count_and_those_of_ours_also_by_part(idleness):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", BELOW], **pipes) as process:
        assert process.stdout.readline() == process.stdout.readline() == "\n"
        below = psutil.Process(process.pid).children()
        used_s = idleness.look_below(process.pid).used_s
        process.stdin.close()
        psutil.wait_procs(below, 10)
    agent_s = used_s.pop("idle CPU of the agent")
    assert agent_s >= 0.2
    assert used_s.pop("idle CPU") >= agent_s + 0.2
    assert not used_s
