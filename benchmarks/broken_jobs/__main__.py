"""How well an answer explains broken distributed programs: that of our tools, or one of yours.

    python benchmarks/broken_jobs                        # run all, ask our tools, print the table
    python benchmarks/broken_jobs --only calls/uneven_batches,waits/slow_disk
    python benchmarks/broken_jobs --show calls/uneven_batches    # the program without its truth
    python benchmarks/broken_jobs --answers FOLDER       # score FOLDER/calls/uneven_batches.txt, …

An answer is any text. It names a mistake when it names the ranks that make it and the line, and
blames no other rank. The exit status is 1 when fewer than 26 of 30 are named, or a healthy program
is blamed.
"""

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from jobs import RANKS, Job, read_jobs
from scoring import Score, score

sys.path.insert(0, str(Path(__file__).parents[1]))

from figures import tell
from machine import describe_machine

RESULTS = Path(__file__).parents[1] / "results"
GOAL = 26
"""Of 30 that are to be named."""
_PACKAGES = ("jupyter-dist", "numpy", "torch", "jax", "pyzmq", "ipython")


class Finding(NamedTuple):
    """An answer about one program, and what it is worth."""

    job: Job
    answer: str
    first_s: float | None
    """When the first word came; None: that is not known."""
    score: Score


def main() -> int:
    """Score answers and print the table; return whether the goal was missed."""
    options = read_options()
    if options.show:
        print("".join(job.code() for job in read_jobs(frozenset({options.show}))), end="")
        return 0
    jobs = [job for job in read_jobs(options.only) if can_run(job)]
    answers = read_answers(options.answers) if options.answers else ask_and_tell
    machine = describe_machine()
    with ThreadPoolExecutor(options.streams) as streams:
        found = list(zip(jobs, streams.map(answers, jobs), strict=True))
    findings = [Finding(job, *answer, score(answer[0], job)) for job, answer in found]
    report = write_report(findings, machine)
    print(report)
    if not options.only and not options.answers:
        (RESULTS / "broken_jobs.md").write_text(report)
        (RESULTS / "broken_jobs.json").write_text(write_answers(findings, machine))
    named, broken, blamed = count(findings)
    return int(named < min(GOAL, broken) or blamed > 0)


def can_run(job: Job) -> bool:
    """Return whether what a program needs is there; say so if it is not."""
    if not job.needs or importlib.util.find_spec(job.needs) is not None:
        return True
    tell(f"{job.name}: left out, {job.needs} is not installed")
    return False


def ask_and_tell(job: Job) -> tuple[str, float | None]:
    """Run a program and return what our tools say of it."""
    from asking import ask_tools

    tell(job.name)
    return ask_tools(job)


def read_answers(folder: Path) -> Callable[[Job], tuple[str, None]]:
    """Return what gives the answers of a folder; one that is missing is empty."""

    def read(job: Job) -> tuple[str, None]:
        file = folder / f"{job.name}.txt"
        return file.read_text() if file.exists() else "", None

    return read


def count(findings: Sequence[Finding]) -> tuple[int, int, int]:
    """Return how many are named, of how many broken ones, and how many healthy ones are blamed."""
    broken = [each for each in findings if not each.job.is_healthy]
    blamed = [each for each in findings if each.job.is_healthy and each.score.accused]
    return sum(each.score.names_it for each in broken), len(broken), len(blamed)


def write_report(findings: Sequence[Finding], machine: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    named, broken, blamed = count(findings)
    healthy = len(findings) - broken
    facts = "; ".join(f"{name}: {value}" for name, value in (machine | versions()).items())
    rows = [row(each) for each in findings if not each.job.is_healthy]
    well = [row(each) for each in findings if each.job.is_healthy]
    found = (
        f"{named} of {broken} named by rank and line without blaming another rank; "
        f"{blamed} of {healthy} healthy programs blamed. {RANKS} ranks on one host."
    )
    return "\n".join(
        [
            "# Broken jobs, explained by our tools",
            "",
            found,
            "",
            facts,
            "",
            "| program | what is wrong | rank | line | cause | blamed wrongly | first word |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            "| healthy program | what looks odd | blamed wrongly | first word |",
            "|---|---|---|---|",
            *well,
            "",
        ]
    )


def row(finding: Finding) -> str:
    """Return the row of a program."""
    job, of = finding.job, finding.score
    marks = [] if job.is_healthy else ["yes" if each else "no" for each in of[:3]]
    blamed = ", ".join(map(str, sorted(of.accused))) or "no"
    when = "" if finding.first_s is None else f"{finding.first_s:.1f} s"
    return f"| {' | '.join([job.name, job.cause, *marks, blamed, when])} |"


def write_answers(findings: Sequence[Finding], machine: dict[str, Any]) -> str:
    """Return every answer word for word as JSON."""
    answers = {each.job.name: each.answer.splitlines() for each in findings}
    facts = {"machine": machine | versions(), "answers": answers}
    text = json.dumps(facts, indent=1, ensure_ascii=False)
    return text.replace(str(Path(__file__).parents[2]) + os.sep, "") + "\n"


def versions() -> dict[str, str]:
    """Return the versions of what the programs use."""
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Explain broken distributed programs.")
    parser.add_argument(
        "--only", type=lambda text: frozenset(text.split(",")), default=frozenset(), metavar="NAMES"
    )
    parser.add_argument("--streams", type=int, default=2, help="programs that run at a time")
    parser.add_argument("--show", metavar="NAME", help="print a program without its truth")
    parser.add_argument("--answers", type=Path, metavar="FOLDER", help="score these answers")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
