"""What `make gpu` runs, in which order, and how long each of it may take.

First what teaches most; never two unknowns in one step. A step ends well within ten minutes,
because machines may be lent by the command.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
GPU_TESTS = ROOT / "tests" / "gpu"
STOCK, SHARING = "stock", "sharing"
"""The NCCL that the machine has, and that of the kit, which lets ranks share a GPU."""
_ONE_RANK = "one_rank or ring_alone or calls_are_seen or jax_finds"
_SHARE = "two_ranks_that_share or may_block or groups_and_splits"
_LEAKS = "leave_nothing"
_PYTEST = ("-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=short", "--durations=0")


@dataclass(frozen=True)
class Run:
    """One program, which goes on without the others."""

    name: str
    arguments: Sequence[str]
    """Of Python. `{folder}` is where results go."""
    limit_s: float
    nccl: str = SHARING
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """Runs that belong together."""

    title: str
    runs: Sequence[Run]


def make_steps(gpu_count: int) -> dict[int, Step]:
    """Return the steps by their numbers."""
    debug = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "{folder}/nccl.%p.log"}
    tests = str(GPU_TESTS)
    steps = [
        Step(
            "facts, and one rank",
            [
                _program("facts", "first_contact/facts.py", 120, nccl=STOCK),
                _tests("probe", 100, f"{tests}/test_probe.py", nccl=STOCK),
                _tests("one", 180, tests, "-k", _ONE_RANK, nccl=STOCK),
            ],
        ),
        Step(
            "ranks that share a GPU",
            [_tests("two", 420, f"{tests}/test_nccl.py", "-k", _SHARE, env=debug)],
        ),
        Step(
            "failures, streams, sockets",
            [_tests("nccl", 540, f"{tests}/test_nccl.py", "-k", f"not ({_SHARE} or {_ONE_RANK})")],
        ),
        Step(
            "other libraries",
            [
                _tests("cupyx", 210, f"{tests}/test_cupyx.py"),
                _tests("frameworks", 330, f"{tests}/test_frameworks.py"),
            ],
        ),
        Step("figures", _benchmarks(gpu_count)),
        Step("losses", [_tests("losses", 540, f"{tests}/test_losses.py", "-k", f"not {_LEAKS}")]),
        Step(
            "where results go, and clusters",
            [
                _tests("calls", 310, f"{tests}/test_calls.py"),
                _tests("clusters", 240, f"{tests}/test_clusters.py"),
            ],
        ),
        Step("torch and JAX", [_tests("libraries", 540, f"{tests}/test_libraries.py")]),
        Step("leaks", [_tests("leaks", 480, f"{tests}/test_losses.py", "-k", _LEAKS)]),
    ]
    return dict(enumerate(steps, 1))


def read_steps(text: str, known: Sequence[int]) -> list[int]:
    """Read `1-3,5`, `all` or `none`; raises ValueError that says what is accepted."""
    if text == "all":
        return list(known)
    if text == "none":
        return []
    found: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    except ValueError:
        found = []
    if not found or not set(found) <= set(known):
        raise ValueError(
            f"steps {text!r} are not accepted. Give numbers from {min(known)} to {max(known)}, as "
            "1, 1-3 or 1,4; all; or none, which writes the table from what was found before."
        )
    return list(dict.fromkeys(found))


def _tests(name: str, limit_s: float, *arguments: str, nccl: str = SHARING, env=None) -> Run:
    report = f"--junitxml={{folder}}/{name}.xml"
    return Run(name, (*_PYTEST, report, *arguments), limit_s, nccl, env or {})


def _program(name: str, path: str, limit_s: float, *options: str, nccl: str = SHARING, env=None):
    arguments = (str(ROOT / "benchmarks" / "gpu" / path), *options)
    return Run(name, (*arguments, "--json", f"{{folder}}/{name}.json"), limit_s, nccl, env or {})


def _benchmarks(gpu_count: int) -> list[Run]:
    shares = ("--oversubscribe", "--max", "16M") if gpu_count < 2 else ("--max", "1G")
    hosts = ("--hosts", f"localhost:{max(2, gpu_count)}", *shares, "--rounds", "3")
    return [
        _program("overhead", "nccl_overhead.py", 60),
        _program("overhead_blocking", "nccl_overhead.py", 60, env={"NCCL_COMM_BLOCKING": "1"}),
        _program("sweep", "all_reduce_sweep.py", 270, *hosts),
    ]


def command(run: Run, folder: Path) -> list[str]:
    """Return what is to be started."""
    return [sys.executable, *(part.replace("{folder}", str(folder)) for part in run.arguments)]
