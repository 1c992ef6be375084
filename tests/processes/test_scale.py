"""Simulated hosts on the real wire: they do as real ones, suffer what is to be, and leave nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu_programs import benchmark_module  # noqa: F401  (fixture)

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "scale.py"


def measure(*words):
    """Run the benchmark; return its figures by their names, and all that it said."""
    command = [sys.executable, PROGRAM, *words, "--cells", "3", "--idle-s", "0.5"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    said = run.stdout + run.stderr
    assert run.returncode == 0, said
    pairs = (line.strip().rpartition(": ") for line in run.stdout.splitlines())
    return {name: value for name, _, value in pairs}, said


@pytest.mark.slow
def test_64_simulated_ranks_on_16_hosts_start_run_cells_and_suffer(home):
    figures, said = measure("--hosts", "16", "--slots", "4")
    assert "simulated, 64 ranks:" in said
    assert float(figures["start, s"]) < 60
    assert float(figures["death told, ms"]) < 5000, "not by silence, which takes 10 s"
    assert 8 < float(figures["silent host told, s"]) < 30
    assert "stop, s" in figures


@pytest.mark.slow
def test_real_ranks_are_measured_by_the_same_program(home):
    figures, _ = measure("--real", "4")
    assert float(figures["barrier, ms"]) > 0
    assert float(figures["ranks that did not heed it"]) == 0


def test_an_error_on_simulated_hosts_is_why_a_start_fails(home, tmp_path, benchmark_module):  # noqa: F811
    module = benchmark_module("simulated_hosts")
    hosts = module.SimulatedHosts(2, 1)
    with pytest.raises(module.WorkerError, match="no-join-file"), hosts:
        hosts.join(tmp_path / "no-join-file")
