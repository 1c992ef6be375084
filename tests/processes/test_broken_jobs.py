"""Some programs of benchmarks/broken_jobs: what is said of them names rank and line, and no one else."""

import importlib
from pathlib import Path

import pytest

from tests.matrix import only

FOLDER = Path(__file__).parents[2] / "benchmarks" / "broken_jobs"
SOME = [
    "calls/shape_drift",
    "waits/blocking_import",
    "waits/endless_loop_in_loader",
    "ends/exit_on_one_rank",
    "ends/killed_rank",
    "healthy/compiler_on_rank_0",
]


@pytest.mark.parametrize("name", only(["ends/killed_rank"], SOME, at_night=SOME[:3:2]))
def test_a_broken_program_is_named_and_a_healthy_one_is_not(home, monkeypatch, name):
    monkeypatch.syspath_prepend(str(FOLDER))
    (job,) = importlib.import_module("jobs").read_jobs(frozenset({name}))
    answer, _first_s = importlib.import_module("asking").ask_tools(job)
    found = importlib.import_module("scoring").score(answer, job)
    assert found.names_it, answer
