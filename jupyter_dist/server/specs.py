"""Saved specifications that a page may start: TOML files in a few folders, and nowhere else."""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from jupyter_dist.cluster.spec.spec_file import read_spec
from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec.batch import BATCH_TITLES
from jupyter_dist.model.spec.cluster_spec import ClusterSpec
from jupyter_dist.text.lists import name_some
from jupyter_dist.text.plurals import count_of
from jupyter_dist.text.sizes import tell_size

CLUSTERS_FOLDER = "clusters"
"""Beside the notebooks, at the top."""
MOST_FILES = 200
MOST_BYTES = 256 << 10
_SIGNS = ("[[hosts]]", "[batch]")
"""One of these is in each specification that is not a rehearsal on one machine."""


class SpecRow(msgspec.Struct, frozen=True, kw_only=True):
    """One saved specification."""

    name: str
    """Of the cluster it would make or, where it has none, of the file."""
    path: str
    hosts: str = ""
    """As `node01:8, node02:8`, or `2 nodes of Slurm, 8 ranks each`."""
    problem: str = ""
    """Why it cannot be started; empty: it can."""


class SpecFolders:
    """The folders in which pages find specifications.

    In the first one, where notebooks are, only files with a table [[hosts]] or [batch] count:
    others there belong to something else.
    """

    def __init__(self, root: Path, own: Path) -> None:
        self._root = root
        self._folders = (root, root / CLUSTERS_FOLDER, own)

    @property
    def paths(self) -> tuple[str, ...]:
        """All folders, whether they exist or not."""
        return tuple(map(_write_path, self._folders))

    def list_specs(self) -> list[SpecRow]:
        """Read every specification; one that cannot be read says why."""
        return list(islice(self._read_all(), MOST_FILES))

    def find(self, given: str) -> Path:
        """Return the file that a page names by its path; raises UsageError for any other."""
        path = Path(given)
        if not path.is_absolute():
            path = self._root / path
        if path.suffix != ".toml" or not self._is_inside(path):
            raise UsageError(
                f"specification {given!r} is not accepted. Accepted: a file *.toml in "
                f"{' or '.join(self.paths)}."
            )
        if not os.path.isfile(path):
            raise UsageError(f"specification {given!r} does not exist.{self._name_known()}")
        return path

    def _name_known(self) -> str:
        known = [row.path for row in self.list_specs()]
        return f" There are: {name_some(known)}." if known else ""

    def _is_inside(self, path: Path) -> bool:
        """Return whether a file lies in one of the folders, wherever links may lead."""
        try:
            return path.resolve().parent in [folder.resolve() for folder in self._folders]
        except (OSError, RuntimeError, ValueError):
            return False  # links in a circle, or no name that a file can have

    def _read_all(self) -> Iterator[SpecRow]:
        for folder in dict.fromkeys(self._folders):
            is_sure = folder != self._root
            for path in sorted(folder.glob("*.toml")) if os.path.isdir(folder) else ():
                if path.name.startswith("."):
                    continue  # locks and drafts of editors
                if (row := self._look_at(path, is_sure=is_sure)) is not None:
                    yield row

    def _look_at(self, path: Path, *, is_sure: bool) -> SpecRow | None:
        if not os.path.isfile(path):  # a folder, or a pipe, whose end would never come
            is_broken = is_sure and path.is_symlink()
            return _problem_row(path, "this link leads to no file") if is_broken else None
        if not self._is_inside(path):
            return _problem_row(path, "this link leads out of the folders for specifications")
        return _read(path, is_sure=is_sure)


def _read(path: Path, *, is_sure: bool) -> SpecRow | None:
    """Read a file; None for one that is no specification, unless it surely is meant as one."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} is too large: {tell_size(MOST_BYTES)} are accepted.")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, UsageError) as problem:
        return _problem_row(path, problem) if is_sure else None
    if not is_sure and not any(sign in text for sign in _SIGNS):
        return None
    try:
        spec = read_spec(text, path)
    except UsageError as problem:
        return _problem_row(path, problem)
    written = _write_path(path)
    if written != str(path):
        return _problem_row(
            path, f"{written} is not UTF-8, so that no page can name it: rename it."
        )
    return SpecRow(name=spec.name or path.stem, path=written, hosts=_write_hosts(spec))


def _problem_row(path: Path, problem: Exception | str) -> SpecRow:
    where, written = str(path), _write_path(path)
    said = str(problem).replace(where, written)
    return SpecRow(name=Path(written).stem, path=written, problem=said)


def _write_path(path: Path) -> str:
    """Write a path as text that can be sent, also one that is not UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def _write_hosts(spec: ClusterSpec) -> str:
    hosts = spec.hosts
    if spec.batch is not None:
        nodes = count_of(len(hosts), "node")
        ranks = f", {hosts[0].slots} ranks each" if hosts[0].slots else ""
        return f"{nodes} of {BATCH_TITLES[spec.batch.system]}{ranks}"
    return name_some([f"{host.name}:{host.slots}" if host.slots else host.name for host in hosts])
