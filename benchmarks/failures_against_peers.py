"""What three bad moments cost in jupyter-dist and its rivals, in one run and in turns.

    python benchmarks/failures_against_peers.py [--rounds 3] [--only ours,ipyparallel]

A rank raises while the others are busy; ■ is pressed while all ranks are in C code; a rank is
killed. `peers/trouble.py` tells each story once, for all. Every trial has ranks of its own; every
wait ends after 60 s; no process is left. README.md says what the figures mean.
"""

import argparse
import hashlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from arena import Arena, ContenderError
from failures_report import Findings, write_findings
from figures import tell
from machine import describe_machine, make_peers_venv

RANKS = 4
C_CALL_S = 30.0
INTERRUPT_S = 4.0
START_DEADLINE_S = 90.0
STORY_DEADLINE_S = 300.0
"""A story has several waits, of 60 s at most each."""
OURS = "ours"
RIVALS = ("ipyparallel", "jupyter-distributed")
SUFFIX = "-in-trouble"
PACKAGE = Path(__file__).parents[1] / "jupyter_dist"
CHANGED = "was edited during the run: the figures of ours are of more than one version"


class Trial(NamedTuple):
    """One contender in one story."""

    story: str
    contender: str
    circumstances: dict[str, Any]
    way: str
    """How the report calls it."""


def list_trials(rounds: int) -> list[Trial]:
    """List what happens to whom; `rounds` is how long the C call is."""
    trials = []
    for name in (OURS, *RIVALS):
        once = {"rounds": rounds, "interrupts_s": [INTERRUPT_S]}
        trials += [
            Trial("a_rank_raises", name, {"way": "sleep"}, "others in time.sleep"),
            Trial("c_code_is_interrupted", name, once, "one ■"),
            Trial("a_rank_is_killed", name, {"way": "idle"}, "all idle"),
            Trial("a_rank_is_killed", name, {"way": "sleep"}, "others in time.sleep"),
        ]
    stopped = {"way": "sleep", "on_error": "interrupt"}
    twice = {"rounds": rounds, "interrupts_s": [INTERRUPT_S, INTERRUPT_S + 1]}
    collective = {"way": "collective"}
    return [
        *trials,
        Trial("a_rank_raises", OURS, collective, "others in a collective"),
        Trial("a_rank_raises", OURS, stopped, "others in time.sleep, --on-error interrupt"),
        Trial("c_code_is_interrupted", OURS, twice, "a second ■ 1 s later"),
        Trial("a_rank_is_killed", OURS, collective, "others in a collective"),
    ]


def main() -> int:
    """Run every trial once per round, write the report; says whether all of ours could be told."""
    options = read_options()
    began = time.monotonic()
    peers_python = make_peers_venv()
    machine = describe_machine()
    source = digest_source()
    rounds_of_call = find_rounds(C_CALL_S)
    trials = [each for each in list_trials(rounds_of_call) if each.contender in options.only]
    pythons = {f"{name}{SUFFIX}": peers_python for name in RIVALS}
    findings = Findings()
    with Arena({**pythons, f"{OURS}{SUFFIX}": Path(sys.executable)}) as arena:
        for number in range(1, options.rounds + 1):
            for trial in random.sample(trials, len(trials)):
                tell(f"round {number}: {trial.story}, {trial.contender}, {trial.way}")
                try:
                    findings.add(trial, suffer(arena, trial))
                except ContenderError as failure:
                    findings.miss(trial, str(failure))
            machine |= {
                "rounds": number,
                "load after": os.getloadavg()[0],
                "run took": f"{time.monotonic() - began:.0f} s",
                "pbkdf2_hmac rounds of the C call": rounds_of_call,
                "source of ours": source if digest_source() == source else CHANGED,
            }
            versions = {name.removesuffix(SUFFIX): each for name, each in arena.versions.items()}
            text = write_findings(findings, machine, versions, arena.leftovers)
    print(text)
    return 1 if any(contender == OURS for _, contender, _ in findings.missing) else 0


def suffer(arena: Arena, trial: Trial) -> dict[str, Any]:
    """Start ranks, let it happen to them, end them."""
    with arena.worker(f"{trial.contender}{SUFFIX}") as worker:
        worker.ask(START_DEADLINE_S, do="start", n=RANKS)
        facts: dict[str, Any] = worker.ask(
            STORY_DEADLINE_S, do="suffer", story=trial.story, **trial.circumstances
        )
        return facts


def find_rounds(seconds: float) -> int:
    """Find out how many rounds take so long in as many processes as ranks, on a busy machine too.

    Each has a session of its own, as engines have: Linux shares cores out among sessions.
    """
    trial_rounds = 2_000_000
    call = f"import hashlib; hashlib.pbkdf2_hmac('sha256', b'word', b'salt', {trial_rounds})"
    began = time.perf_counter()
    processes = [
        subprocess.Popen([sys.executable, "-c", call], start_new_session=True) for _ in range(RANKS)
    ]
    for process in processes:
        process.wait(START_DEADLINE_S)
    return int(trial_rounds * seconds / (time.perf_counter() - began))


def digest_source() -> str:
    """Tell versions of our source apart."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Measure bad moments beside the rivals.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=[OURS, *RIVALS], help="contenders"
    )
    options = parser.parse_args()
    if unknown := set(options.only) - {OURS, *RIVALS}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {OURS}, {RIVALS}")
    return options


if __name__ == "__main__":
    sys.exit(main())
