"""The directory of synced code on this host: what it has, what arrives, what is put into place.

What arrives lies aside, by digest, until all of it is there. Then each file is renamed into its
place, so that an import meanwhile finds the old or the new one whole.
"""

import contextlib
import os
import shutil
import stat
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from jupyter_dist.errors import DistError
from jupyter_dist.model.transfer.code_manifest import (
    CodeFile,
    Manifest,
    Piece,
    find_escape,
    new_digest,
    parents_of,
)
from jupyter_dist.model.transfer.code_place import code_dir, imports_path, read_imports

_BYTECODE = "__pycache__"
_READ_BYTES = 1 << 20
_Look = tuple[int, int, int, int]


class CodeProblem(DistError):
    """Code cannot be put into place on this host."""


class _Known(msgspec.Struct, frozen=True):
    """A file's digest, good as long as the file looks the same."""

    look: _Look
    digest: bytes


class CodeDir:
    """The one owner of `code` in the run directory. Raises OSError and CodeProblem."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._path = Path(code_dir(str(run_dir)))
        self._path.mkdir()
        self.incoming_dir = run_dir / "code-incoming"
        """What has arrived and is not in its place."""
        self._manifest = Manifest((), ())
        self._lacking: list[int] = []
        self._known: dict[str, _Known] = {}
        self._owners: dict[str, str] = {}
        """For each name in the directory itself, the origin it came from."""
        self._last_changed_s = 0

    def begin(self, manifest: Manifest) -> list[int]:
        """Return the indices of files that differ or are not here; forget what came before."""
        escape = find_escape(manifest)
        if escape is not None:
            raise CodeProblem(f"{escape!r} is refused: it does not lie in the code directory")
        self.forget()
        self.incoming_dir.mkdir()
        self._manifest = manifest
        real = self._real_folders()
        self._lacking = [
            index
            for index, file in enumerate(manifest.files)
            if _parent(file.path) not in real or self._digest(file.path) != file.digest
        ]
        return self._lacking

    def add(self, pieces: Sequence[Piece]) -> None:
        """Append to the contents that are on their way."""
        for piece in pieces:
            with self._incoming_path(self._manifest.files[piece.index]).open("ab") as file:
                file.write(piece.data)

    def settle(self) -> int:
        """Put everything into its place, and remove the rest; give how many files that were.

        What has arrived is gone then, also when that fails.
        """
        try:
            return self._settle()
        finally:
            self.forget()

    def _settle(self) -> int:
        staged = {index: self._find_staged(index) for index in self._lacking}
        self._last_changed_s = max(int(time.time()), self._last_changed_s + 1)
        for folder in sorted(self._folders()):
            self._make_folder(folder)
        takers = Counter(staged.values())
        for index, path in staged.items():
            takers[path] -= 1
            self._install(self._manifest.files[index], path, is_last=not takers[path])
        for file in self._manifest.files:
            target = self._path / file.path
            if stat.S_IMODE(target.stat().st_mode) != file.mode:
                target.chmod(file.mode)
        removed = self._remove_others()
        for folder in ("", *self._folders()):
            # Ranks remember what is in a folder until its time is another one.
            os.utime(self._path / folder, (self._last_changed_s, self._last_changed_s))
        return removed

    def forget(self) -> None:
        """Remove what has arrived and is not in its place."""
        _remove(self.incoming_dir)
        self._manifest, self._lacking = Manifest((), ()), []

    def stale_modules(self, engines: Sequence[str]) -> list[str]:
        """Name the modules that these engines have imported and whose file has changed since."""
        found: set[str] = set()
        for engine in engines:
            with contextlib.suppress(OSError):
                data = Path(imports_path(str(self._run_dir), engine)).read_bytes()
                for imported in read_imports(data).values():
                    if _changed_s(imported.path) not in (None, imported.changed_s):
                        found.add(imported.module)
        return sorted(found)

    # --- comparing ---

    def _digest(self, path: str) -> bytes | None:
        """Digest a file of the directory; None where there is no regular file."""
        target = self._path / path
        try:
            look = _look_at(target)
            if look is None:
                return None
            known = self._known.get(path)
            if known is None or known.look != look:
                known = self._known[path] = _Known(look, _digest_file(target)[0])
        except (FileNotFoundError, NotADirectoryError):
            return None
        return known.digest

    def _real_folders(self) -> set[str]:
        """Return those folders of the manifest that are here; a link in place of one is none."""
        real = {""}
        for folder in sorted(self._folders()):
            with contextlib.suppress(OSError):
                is_folder = stat.S_ISDIR((self._path / folder).lstat().st_mode)
                if is_folder and _parent(folder) in real:
                    real.add(folder)
        return real

    def _folders(self) -> set[str]:
        folders = self._manifest.folders
        return {*folders, *parents_of([*folders, *(file.path for file in self._manifest.files)])}

    # --- putting into place ---

    def _incoming_path(self, file: CodeFile) -> Path:
        return self.incoming_dir / file.digest.hex()

    def _find_staged(self, index: int) -> Path:
        """Return where the contents of a file have arrived; they must be what was announced."""
        file = self._manifest.files[index]
        path = self._incoming_path(file)
        with contextlib.suppress(OSError):
            if _digest_file(path) == (file.digest, file.size):
                return path
        raise CodeProblem(f"{file.path} has not arrived whole")

    def _make_folder(self, folder: str) -> None:
        target = self._path / folder
        if target.is_symlink() or (target.exists() and not target.is_dir()):
            target.unlink()
        target.mkdir(exist_ok=True)

    def _install(self, file: CodeFile, staged: Path, *, is_last: bool) -> None:
        target = self._path / file.path
        if not is_last:
            copy = staged.with_name(f"{staged.name}.copy")
            staged = Path(shutil.copyfile(staged, copy))
        staged.chmod(file.mode)
        # No two versions have the same time, so that Python takes no bytecode of another one.
        os.utime(staged, (self._last_changed_s, self._last_changed_s))
        if target.is_dir() and not target.is_symlink():
            _remove(target)
        staged.replace(target)
        look = _look_at(target)
        if look is not None:
            self._known[file.path] = _Known(look, file.digest)

    # --- removing ---

    def _remove_others(self) -> int:
        """Remove what belongs to the sources of the manifest, but is not in it any more."""
        files = {file.path for file in self._manifest.files}
        folders = self._folders()
        origins = {source.origin for source in self._manifest.sources}
        names = {name: source.origin for source in self._manifest.sources for name in source.names}
        gone = [
            name for name, origin in self._owners.items() if origin in origins and name not in names
        ]
        for name in gone:
            del self._owners[name]
        self._owners |= names
        for name in folders & names.keys():
            gone += self._others_in(name, files, folders)
        return sum(map(self._remove_counted, gone))

    def _others_in(self, folder: str, files: set[str], folders: set[str]) -> Iterator[str]:
        """Yield what lies in a folder, or in those below, and is in neither set."""
        for entry in os.scandir(self._path / folder):
            path = f"{folder}/{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == _BYTECODE and is_folder:
                continue  # good for the sources that stay, and found by nobody without a source
            if is_folder and path in folders:
                yield from self._others_in(path, files, folders)
            elif is_folder or path not in files:
                yield path

    def _remove_counted(self, path: str) -> int:
        """Remove a file or folder; give how many files of ours that were."""
        target = self._path / path
        if target.is_dir() and not target.is_symlink():
            ours = [known for known in self._known if known.startswith(f"{path}/")]
        else:
            ours = [path] if path in self._known else []
        for known in ours:
            del self._known[known]
        _remove(target)
        return len(ours)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _look_at(path: Path) -> _Look | None:
    """Return what changes whenever a file does; None when it is not a regular file."""
    seen = path.lstat()
    if not stat.S_ISREG(seen.st_mode):
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _digest_file(path: Path) -> tuple[bytes, int]:
    """Return digest and size of what a file has in it."""
    digest, size = new_digest(), 0
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
            size += len(data)
    return digest.digest(), size


def _changed_s(path: str) -> float | None:
    """Return when a file was written; None when it is gone."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it; nothing is as good."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            # Ranks may just be writing bytecode into it.
            shutil.rmtree(path, ignore_errors=True)
            if path.exists():
                shutil.rmtree(path)
        else:
            path.unlink()
