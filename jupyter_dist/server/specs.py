"""Saved specifications that a page may start: TOML files in a few folders, and nowhere else."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec import HostSpec
from jupyter_dist.model.spec_file import read_spec
from jupyter_dist.model.text import name_some

CLUSTERS_FOLDER = "clusters"
"""Beside the notebooks, at the top."""
MOST_FILES = 200
MOST_BYTES = 256 << 10
_HOSTS = "[[hosts]]"


class SpecRow(msgspec.Struct, frozen=True, kw_only=True):
    """One saved specification."""

    name: str
    """Of the cluster it would make or, where it has none, of the file."""
    path: str
    hosts: str = ""
    """As `node01:8, node02:8`."""
    problem: str = ""
    """Why it cannot be started; empty: it can."""


class SpecFolders:
    """The folders in which pages find specifications.

    In the first one, where notebooks are, only files with a table [[hosts]] count: others there
    belong to something else.
    """

    def __init__(self, root: Path, own: Path) -> None:
        self._root = root
        self._folders = (root, root / CLUSTERS_FOLDER, own)

    @property
    def paths(self) -> tuple[str, ...]:
        """All folders, whether they exist or not."""
        return tuple(map(str, self._folders))

    def list_specs(self) -> list[SpecRow]:
        """Read every specification; one that cannot be read says why."""
        return list(islice(self._read_all(), MOST_FILES))

    def find(self, given: str) -> Path:
        """Give the file that a page names by its path; raises UsageError for any other."""
        path = Path(given)
        if not path.is_absolute():
            path = self._root / path
        if path.suffix != ".toml" or not self._is_inside(path):
            raise UsageError(
                f"specification {given!r} is not accepted. Accepted: a file *.toml in "
                f"{' or '.join(self.paths)}."
            )
        if not path.is_file():
            raise UsageError(f"specification {given!r} does not exist.{self._name_known()}")
        return path

    def _name_known(self) -> str:
        known = [row.path for row in self.list_specs()]
        return f" There are: {name_some(known)}." if known else ""

    def _is_inside(self, path: Path) -> bool:
        """Tell whether a file lies in one of the folders, wherever links may lead."""
        return path.resolve().parent in [folder.resolve() for folder in self._folders]

    def _read_all(self) -> Iterator[SpecRow]:
        for folder in dict.fromkeys(self._folders):
            for path in sorted(folder.glob("*.toml")) if folder.is_dir() else ():
                if not self._is_inside(path):
                    problem = "this link leads out of the folders for specifications"
                    yield SpecRow(name=path.stem, path=str(path), problem=problem)
                elif (row := _read(path, is_sure=folder != self._root)) is not None:
                    yield row


def _read(path: Path, *, is_sure: bool) -> SpecRow | None:
    """Read a file; None for one that is no specification, unless it surely is meant as one."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} is too large: {MOST_BYTES >> 10} KiB are accepted.")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, UsageError) as problem:
        return _problem_row(path, problem) if is_sure else None
    if not is_sure and _HOSTS not in text:
        return None
    try:
        spec = read_spec(text, path)
    except UsageError as problem:
        return _problem_row(path, problem)
    return SpecRow(name=spec.name or path.stem, path=str(path), hosts=_write_hosts(spec.hosts))


def _problem_row(path: Path, problem: Exception) -> SpecRow:
    return SpecRow(name=path.stem, path=str(path), problem=str(problem))


def _write_hosts(hosts: Sequence[HostSpec]) -> str:
    return name_some([f"{host.name}:{host.slots}" if host.slots else host.name for host in hosts])
