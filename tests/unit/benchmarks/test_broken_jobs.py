"""The truth about broken programs can be read, and answers about them are scored as people read them."""

import ast
import importlib
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "benchmarks" / "broken_jobs"


@pytest.fixture
def module(monkeypatch):
    """Import a module of the benchmark."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.fixture
def scored(module):
    """Return what an answer about a program is worth."""
    jobs = module("jobs")

    def score(answer, name="calls/uneven_batches"):
        (job,) = jobs.read_jobs(frozenset({name}))
        (line,) = job.lines or {0}
        return module("scoring").score(answer.replace("LINE", f"{job.path.name}:{line}"), job)

    return score


def test_there_are_thirty_broken_programs_and_ten_healthy_ones(module):
    jobs = module("jobs").read_jobs()
    healthy = [job for job in jobs if job.is_healthy]
    assert (len(jobs) - len(healthy), len(healthy)) == (30, 10)
    for job in jobs:
        ast.parse(job.code())
        assert job.code().count("\n") == job.path.read_text().count("\n")
        assert re.compile(job.says)
        assert job.is_healthy or (job.lines and job.ranks <= set(range(4)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n", "does not begin"),
        ("# /// job\n# cuase = 'no'\n# ///\nx = 1\n", "cuase"),
        ("# /// job\n# cause = 'no'\n# at = ['y = 1']\n# ///\nx = 1\n", "y = 1"),
    ],
)
def test_a_block_that_cannot_be_meant_is_refused(module, tmp_path, text, words):
    file = tmp_path / "job.py"
    file.write_text(text)
    with pytest.raises(ValueError, match=words):
        module("jobs").read_job(file)


@pytest.mark.parametrize(
    "answer",
    [
        "ranks 0-1,3 wait in all_reduce #4 (LINE) for 3 s; rank 2 finished and never called it",
        "Rank 2 has fewer batches, so it never calls all_reduce at LINE, and the others hang.",
        "RankRaised: rank 2: ValueError: no batch, at LINE (3 others were released)",
        "PeerFailed on ranks 0-1,3 (3): rank 2 is lost: killed at LINE\n→ --ranks 0-1,3 works",
        "rank 0: CollectiveMismatch: rank 2 called barrier() at LINE, but ranks 0-1,3 called it",
    ],
)
def test_who_names_rank_and_line_has_named_it(scored, answer):
    assert scored(answer).names_it


@pytest.mark.parametrize(
    ("answer", "rank", "line", "accused"),
    [
        ("", False, False, set()),
        ("a rank has fewer batches, LINE", False, True, set()),
        ("rank 2 has fewer batches", True, False, set()),
        ("rank 2 waits in all_reduce at LINE", False, True, set()),
        (
            "rank 2 has fewer, at line 7, line 8, line 9, line 10, line 11 or LINE",
            True,
            False,
            set(),
        ),
        ("rank 1 has fewer batches at LINE", False, True, {1}),
        ("ranks 1 and 2 have fewer batches at LINE", False, True, {1}),
        ("rank 2 finished; rank 3 is stopped at LINE", True, True, {3}),
        ("ranks 0-3 wait for each other at LINE", False, True, {0, 1, 3}),
    ],
)
def test_what_is_missing_or_blamed_wrongly_is_seen(scored, answer, rank, line, accused):
    found = scored(answer)
    assert (found.rank, found.line, found.accused) == (rank, line, accused)
    assert not found.names_it


@pytest.mark.parametrize(
    ("answer", "accused"),
    [
        ("", set()),
        ("ranks 0-2 wait in barrier #1; rank 3 has not called it yet: it sleeps; no hang", set()),
        ("ranks 0-2 wait in barrier #1; rank 3 finished and never called it", {0, 1, 2, 3}),
        ("rank 3 is stuck", {3}),
    ],
)
def test_a_healthy_program_is_blamed_by_words_of_fault_only(scored, answer, accused):
    assert scored(answer, "healthy/one_rank_sleeps").accused == accused
