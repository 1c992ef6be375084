"""The programs: what each of them does wrong, as the block of TOML at its top says."""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
RANKS = 4
"""On which every program is to run."""
_BLOCK = re.compile(r"# /// job\n((?:# .*\n)+)# ///\n")
_KEYS = {"cause", "ranks", "at", "also", "says", "needs", "healthy"}


class Job(NamedTuple):
    """One program, and the truth about it."""

    name: str
    """As `calls/uneven_batches`: its path without the ending."""
    path: Path
    cause: str
    """One sentence; of a healthy program, what may look odd about it."""
    ranks: frozenset[int] = frozenset()
    """Those that do what is wrong; none: the program is healthy."""
    lines: frozenset[int] = frozenset()
    """Where: the lines whose code the block names under `at`."""
    also: frozenset[int] = frozenset()
    """Ranks that an answer may name as well: they are in a circle with them, or did not come."""
    says: str = ""
    """What an answer that tells the cause matches, as a regular expression."""
    needs: str = ""
    """A package without which it cannot run."""

    @property
    def is_healthy(self) -> bool:
        """Nothing is wrong with it; it only takes its time."""
        return not self.ranks

    def code(self) -> str:
        """Return the program as it is shown to who shall explain it: blank lines for its block."""
        return _BLOCK.sub(lambda found: "\n" * found[0].count("\n"), self.path.read_text(), count=1)


def read_jobs(names: frozenset[str] = frozenset()) -> list[Job]:
    """Return all programs, or those of these names. Raise ValueError for a name that none has."""
    jobs = [read_job(path) for path in sorted(FOLDER.glob("*/*.py"))]
    if unknown := names - {job.name for job in jobs}:
        known = ", ".join(job.name for job in jobs)
        raise ValueError(f"{', '.join(sorted(unknown))}: no such program. There are: {known}.")
    return [job for job in jobs if not names or job.name in names]


def read_job(path: Path) -> Job:
    """Return a program by its file. Raise ValueError for a block that cannot be meant."""
    text = path.read_text()
    block = _BLOCK.match(text)
    if block is None:
        raise ValueError(f"{path} does not begin with a block `# /// job` … `# ///`.")
    facts = tomllib.loads(block[1].replace("# ", "", 1).replace("\n# ", "\n"))
    if unknown := facts.keys() - _KEYS:
        raise ValueError(f"{path}: {', '.join(unknown)}: no such key. There are: {sorted(_KEYS)}.")
    return Job(
        name=f"{path.parent.name}/{path.stem}",
        path=path,
        cause=facts.get("cause") or facts["healthy"],
        ranks=frozenset(facts.get("ranks", ())),
        lines=_find_lines(path, text[block.end() :], block[0].count("\n"), facts.get("at", ())),
        also=frozenset(facts.get("also", ())),
        says=facts.get("says", ""),
        needs=facts.get("needs", ""),
    )


def _find_lines(path: Path, code: str, above: int, at: list[str]) -> frozenset[int]:
    """Return the numbers of these lines of code. Raise ValueError unless there is one of each."""
    lines = [line.strip() for line in code.splitlines()]
    if odd := [each for each in at if lines.count(each) != 1]:
        raise ValueError(f"{path}: `{odd[0]}` has to be one of its lines, and only one.")
    return frozenset(above + 1 + lines.index(each) for each in at)
