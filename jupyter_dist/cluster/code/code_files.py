"""The code on this machine: what lies under the paths that were given, with its digests."""

import os
import stat
from collections.abc import Sequence

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.model.transfer.code_manifest import (
    MOST_BYTES,
    MOST_FILES,
    MOST_FORCED_FILES,
    CodeFile,
    CodeSource,
    Manifest,
    is_left_out,
    new_digest,
)
from jupyter_dist.text.lists import name_some
from jupyter_dist.text.sizes import tell_size

_READ_BYTES = 1 << 20
_Identity = tuple[int, int]
"""Device and inode: the same for a folder however it was reached."""


class LocalFile(msgspec.Struct, frozen=True):
    """Where a file of the manifest lies on this machine."""

    place: str
    path: str
    """In the manifest."""
    changed_ns: int = 0

    def has_changed(self) -> bool:
        """Return whether it is another one than when it was read."""
        try:
            return os.stat(self.place).st_mtime_ns != self.changed_ns
        except OSError:
            return True


class CodeFiles(msgspec.Struct, frozen=True):
    """A manifest, and where its files lie here, in the same order."""

    manifest: Manifest
    local: tuple[LocalFile, ...]

    @property
    def size_bytes(self) -> int:
        """Of all files together."""
        return sum(file.size for file in self.manifest.files)


def read_code(paths: Sequence[str], *, is_forced: bool = False) -> CodeFiles:
    """Read what shall be copied: for a folder with a slash at its end what is in it.

    Raises UsageError for a path that is not there or cannot be read, for a link that leads out of
    its folder, and (unless it is forced) for more than anybody calls code.
    """
    search = _Search(is_forced)
    sources = [search.add(path) for path in dict.fromkeys(paths)]
    owners: dict[str, str] = {}
    for source in sources:
        for name in source.names:
            other = owners.setdefault(name, source.origin)
            if other != source.origin:
                raise UsageError(
                    f"{other} and {source.origin} would both be {name!r} on the hosts. Copy one "
                    "of them, or rename one."
                )
    found = [_read(file) for file in search.files.values()]
    files, local = tuple(file for file, _ in found), tuple(each for _, each in found)
    return CodeFiles(Manifest(tuple(sources), files, tuple(sorted(search.folders))), local)


class _Search:
    """One pass over all paths; what it finds is read afterwards."""

    def __init__(self, is_forced: bool) -> None:
        self._is_forced = is_forced
        self.files: dict[str, LocalFile] = {}
        self.folders: set[str] = set()
        self._size_bytes = 0
        self._largest = (0, "")
        self._given = ""
        self._root = ""
        self._strays: list[str] = []

    def add(self, given: str) -> CodeSource:
        """Find what lies under one path."""
        path = os.path.expanduser(given)
        if not os.path.exists(path):
            where = "" if os.path.isabs(path) else f" in {os.getcwd()}"
            raise UsageError(f"{given}: there is no such file or folder{where}.")
        place, name = os.path.abspath(path), os.path.basename(path)
        self._given, self._root, self._strays = given, os.path.realpath(path), []
        try:
            if name in ("", ".", ".."):
                origin = f"{place}/"
                names = self._add_folder(place, "", frozenset())
            else:
                origin, names = place, (name,)
                base = os.path.dirname(place)
                if os.path.isdir(path):
                    self._add_folder(base, name, frozenset())
                elif not os.path.isfile(path):  # opening a pipe would wait for who writes to it
                    raise UsageError(f"{given} is neither a file nor a folder.")
                else:
                    self._add_file(base, name, os.stat(path))
        except OSError as problem:
            raise _unreadable(problem, given) from None
        if self._strays:
            raise UsageError(
                f"{given} cannot be copied whole: {name_some(self._strays)}. Put what they lead "
                "to into the folder, or take them out of it."
            )
        return CodeSource(origin, names)

    def _add_folder(self, base: str, path: str, above: frozenset[_Identity]) -> tuple[str, ...]:
        """Take in a folder with all that is wanted of it; give the names in it."""
        folder = f"{base}/{path}" if path else base
        seen = os.stat(folder)
        above |= {(seen.st_dev, seen.st_ino)}
        names: list[str] = []
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            inner = f"{path}/{entry.name}" if path else entry.name
            if is_left_out(entry.name) or self._is_stray(entry, inner, above):
                continue
            if entry.is_dir():
                self._add_folder(base, inner, above)
            elif entry.is_file():
                self._add_file(base, inner, entry.stat())
            else:
                continue  # a socket or a pipe is no code
            names.append(_checked(entry.name))
        if path and not names:
            self.folders.add(path)
        return tuple(names)

    def _is_stray(self, entry: "os.DirEntry[str]", path: str, above: frozenset[_Identity]) -> bool:
        """Return whether it is a link that cannot be followed, and note that."""
        if not entry.is_symlink():
            return False
        target = os.path.realpath(entry.path)
        if not os.path.exists(target):
            self._strays.append(f"the link {path} is broken ({os.readlink(entry.path)})")
        elif not target.startswith(f"{self._root.rstrip('/')}/") and target != self._root:
            self._strays.append(f"the link {path} leads out of it ({target})")
        elif (entry.stat().st_dev, entry.stat().st_ino) in above:
            self._strays.append(f"the link {path} leads to a folder that it lies in")
        else:
            return False
        return True

    def _add_file(self, base: str, path: str, seen: os.stat_result) -> None:
        self.files[path] = LocalFile(f"{base}/{path}", path)
        self._size_bytes += seen.st_size
        self._largest = max(self._largest, (seen.st_size, path))
        most_files = MOST_FORCED_FILES if self._is_forced else MOST_FILES
        too_much = ""
        if len(self.files) > most_files:
            too_much = f"has more than {most_files} files"
        elif self._size_bytes > MOST_BYTES and not self._is_forced:
            size, largest = self._largest
            too_much = (
                f"has more than {tell_size(MOST_BYTES)}, of which {largest} alone has "
                f"{tell_size(size)}"
            )
        if too_much:
            step = "" if self._is_forced else ", or lift the limit with --force (force=True)"
            raise UsageError(f"{self._given} {too_much}. Copy a smaller folder{step}.")


def _read(found: LocalFile) -> tuple[CodeFile, LocalFile]:
    """Read a file for its digest; what it has when it is sent must be the same."""
    digest, size = new_digest(), 0
    try:
        with open(found.place, "rb") as file:
            seen = os.fstat(file.fileno())
            while data := file.read(_READ_BYTES):
                digest.update(data)
                size += len(data)
    except OSError as problem:
        raise _unreadable(problem, found.path) from None
    mode = stat.S_IMODE(seen.st_mode) & 0o777
    local = LocalFile(found.place, found.path, seen.st_mtime_ns)
    return CodeFile(found.path, size, mode, digest.digest()), local


def _unreadable(problem: OSError, path: str) -> UsageError:
    return UsageError(
        f"{problem.filename or path} cannot be read: {problem.strerror or problem}. Nothing was "
        "copied."
    )


def _checked(name: str) -> str:
    """Return the name, if every host can have it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the file name {name!r} is not text in UTF-8. Rename it.") from None
    return name
