"""Whoever has nodes already gets ranks on them: `--launcher auto` inside of an allocation."""

import subprocess
import sys

import pytest

from tests.processes.leftovers import wait_until

DRIVER = """
import sys
import numpy as np
from jupyter_dist import Cluster
from jupyter_dist.errors import DistError
try:
    with Cluster.start(launcher="auto", timeout_s=40, {options}) as cluster:
        names = cluster.run("import socket; socket.gethostname()")
        print(*(rank.value_repr for rank in names))
        print(*(rank.value_repr for rank in cluster.run({cell!r})))
        print(str(cluster.status()))
except DistError as error:
    print(f"{{type(error).__name__}}: {{error}}")
print("done", flush=True)
"""
SUM = "import numpy as np\nfloat(comm.all_reduce(np.array([rank + 1.0]))[0])"


@pytest.fixture
def drive(tmp_path, slurm, home):
    """Write a script that starts a cluster with these options; gives the words that run it."""

    def write(options):
        script = slurm.shared / "driver.py"
        script.write_text(DRIVER.format(options=options, cell=SUM))
        return [sys.executable, str(script)]

    yield write
    (slurm.shared / "driver.py").unlink(missing_ok=True)


def salloc(*words, nodes=2):
    """Run something here, inside of an allocation; give what it said."""
    command = ["salloc", "--quiet", f"--nodes={nodes}", *words]
    run = subprocess.run(command, capture_output=True, text=True, timeout=80, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.mark.slow
def test_a_program_under_salloc_uses_the_nodes_it_has(slurm, start, drive):
    hosts, sums, *status = salloc(*drive("slots=2")).splitlines()
    assert hosts == "'nodeA' 'nodeA' 'nodeB' 'nodeB'"
    assert sums == "10.0 10.0 10.0 10.0"
    assert any("Slurm job" in line for line in status)
    start.assert_nothing_left()


def test_a_job_of_the_users_own_uses_its_nodes(slurm, start, home, drive):
    words = " ".join(drive("slots=1"))
    out = slurm.shared / "out"
    job = slurm.sbatch("--nodes=2", f"--output={out}", "--wrap", f"exec {words}")
    wait_until(lambda: out.exists() and "done" in out.read_text(), 60, "the driver is done")
    # Slurm says there that a TMPDIR of this machine is none of a node.
    said = [line for line in out.read_text().splitlines() if not line.startswith("slurmstepd")]
    hosts, sums, *_ = said
    assert (hosts, sums) == ("'nodeA' 'nodeB'", "3.0 3.0"), out.read_text()
    wait_until(lambda: slurm.job(job)["JobState"] == "COMPLETED", 15, "the job is over")
    out.unlink()
    start.assert_nothing_left()


@pytest.mark.slow
def test_some_of_the_nodes_will_do(start, drive):
    hosts, sums, *_ = salloc(*drive("slots=2, nodes=1")).splitlines()
    assert hosts in ("'nodeA' 'nodeA'", "'nodeB' 'nodeB'")
    assert sums == "3.0 3.0"


def test_more_nodes_than_there_are_is_refused_naming_both(start, drive):
    (told, done) = salloc(*drive("slots=1, nodes=3")).splitlines()
    assert told.startswith("UsageError")
    assert "3" in told
    assert "2" in told
    assert done == "done"
    start.assert_nothing_left()


def test_outside_of_an_allocation_ranks_run_here(slurm, start):
    cluster = start(launcher="auto", nodes=None, slots=2)
    assert slurm.squeue() == []
    assert len(cluster.topology().hosts) == 1
    assert cluster.world_size == 2
