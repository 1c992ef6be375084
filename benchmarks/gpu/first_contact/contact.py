"""Runs the steps that are wanted within a budget, and keeps what they find."""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plan import ROOT, make_steps, read_steps
from running import PATIENCE_S, environment, install_kit, perform
from table import make_text, write_into

PAGE = ROOT / "docs" / "explanation" / "gpu.md"
SHORTEST_S = 20.0
"""A run that would have less is left out: it would only spoil what an earlier one has found."""


def count_gpus() -> int:
    """Count as nvidia-smi does; Python's packages may be missing still."""
    try:
        smi = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.startswith("GPU ") for line in smi.stdout.splitlines())


def run_steps(
    steps: Sequence[Any], folder: Path, end_s: float, found: dict[str, dict[str, Any]]
) -> list[str]:
    """Run until the end by the monotonic clock; give the names of what was left out."""
    left_out = []
    for step in steps:
        for run in step.runs:
            limit_s = min(run.limit_s, end_s - time.monotonic() - PATIENCE_S)
            if limit_s < min(SHORTEST_S, run.limit_s):
                left_out.append(run.name)
                continue
            print(f"{run.name} ({step.title}): {limit_s:.0f} s at most", flush=True)
            found[run.name] = perform(run, folder, limit_s, environment(run, folder))
            save(folder, found)
            passed = sum(test["outcome"] == "passed" for test in found[run.name]["tests"])
            said = found[run.name]["ended"] or f"ended with {found[run.name]['code']}"
            tests = f"{passed} of {len(found[run.name]['tests'])} tests passed"
            print(f"    {said} after {found[run.name]['wall_s']:.0f} s; {tests}", flush=True)
    return left_out


def load(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what earlier calls have found."""
    path = folder / "results.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def save(folder: Path, found: dict[str, dict[str, Any]]) -> None:
    """Keep what was found."""
    part = folder / "results.json.part"
    part.write_text(json.dumps(found, indent=2), encoding="utf-8")
    part.replace(folder / "results.json")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="First contact with a GPU.")
    parser.add_argument("--steps", default="all")
    parser.add_argument("--minutes", type=float, default=26.0)
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "gpu")
    parser.add_argument("--kit", type=Path, default=ROOT / ".gpu-kit")
    parser.add_argument("--page", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    end_s = time.monotonic() + 60 * options.minutes
    gpu_count = 0 if options.steps == "none" else count_gpus()
    steps = make_steps(gpu_count)
    try:
        wanted = [steps[number] for number in read_steps(options.steps, list(steps))]
    except ValueError as error:
        sys.exit(str(error))
    if wanted and not gpu_count:
        sys.exit("nvidia-smi shows no GPU here: nothing was run, and nothing was changed")
    found = load(options.folder)
    left_out = []
    if wanted:
        folder = options.folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        install_kit(options.kit)
        left_out = run_steps(wanted, folder, end_s, found)
    if not found:
        sys.exit(f"{options.folder} has no results: nothing was changed")
    write_into(options.page, make_text(found))
    print(f"{options.page} has the table")
    if left_out:
        sys.exit(f"{options.minutes:g} minutes were over before: {', '.join(left_out)}")
