"""Ours as contenders, today's and earlier releases: each in a virtual environment of its own.

Everything else is installed there in the versions of the Python that runs the benchmark, and
nothing that ours does not need, so that what differs is our code. An editable installation would
not do for today's: with PYTHONDONTWRITEBYTECODE each start would compile it. Nor would files that
another environment shares by hard links: memory would look small while something runs there.
"""

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

from machine import make_venv

ROOT = Path(__file__).parents[1]
FOLDER = Path(__file__).parent / ".releases"
OUR_PACKAGE = "jupyter-dist"
SOURCES = ("jupyter_dist", "pyproject.toml")
CHANGED = "+"
"""Behind a commit: what was measured has changes that are not committed."""


class UnknownRelease(Exception):
    """What is to run along is not in this repository; the text says what can be done."""


def find_releases(asked: str | None, ledger: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """Return the commits that run along, oldest first, by what was asked on the command line."""
    if asked == "none":
        return ()
    names = asked.split(",") if asked else _release_before(ledger)
    commits = {find_commit(name) for name in names}
    return tuple(sorted(commits, key=lambda commit: int(_git("rev-list", "--count", commit))))


def find_commit(name: str) -> str:
    """Return the short hash of a tag or commit. Raise UnknownRelease where it is not here."""
    try:
        return _git("rev-parse", "--verify", "--short", f"{name}^{{commit}}")
    except subprocess.CalledProcessError:
        raise UnknownRelease(
            f"{name} is no tag or commit of this repository. Fetch it (git fetch --unshallow "
            "--tags), or name another one."
        ) from None


def package_commit() -> str:
    """Return the commit that last changed the package; CHANGED behind it says its files differ."""
    commit = _git("log", "-1", "--format=%h", "--", *SOURCES)
    return commit + CHANGED * bool(_git("status", "--porcelain", "--", *SOURCES))


def make_our_venv(commit: str = "") -> Path:
    """Return the Python of an environment with our package of this commit, or as it is."""
    installed = {each.name: each.version for each in distributions()}
    constraints = sorted(f"{n}=={v}" for n, v in installed.items() if n != OUR_PACKAGE)
    if commit:
        source = f"git+{ROOT.as_uri()}@{_git('rev-parse', commit)}"
        return make_venv(FOLDER / commit, [source], constraints)
    return make_venv(FOLDER / "today", [str(ROOT)], [*constraints, f"# {_digest()}"])


def _release_before(ledger: Sequence[Mapping[str, str]]) -> list[str]:
    """Name the newest tag before this commit, or what the ledger has last besides this commit."""
    try:
        return [_git("describe", "--tags", "--abbrev=0", "HEAD^")]
    except subprocess.CalledProcessError:
        today = package_commit()
        measured = [line["commit"] for line in ledger if line["commit"] != today]
        return [commit.removesuffix(CHANGED) for commit in measured[-1:]]


def _digest() -> str:
    """Sum up what is installed from here, for which a change means another installation."""
    found = [path for source in SOURCES for path in (ROOT / source, *(ROOT / source).rglob("*"))]
    files = sorted(path for path in found if path.is_file() and path.suffix != ".pyc")
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
