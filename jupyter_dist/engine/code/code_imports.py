"""Imports from the code directory: each is noted with the version of the file that was loaded.

So a rank knows which of its modules have changed since, and its agent knows it too.
"""

import os
import sys
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from typing import Any

from jupyter_dist.model.transfer.code_place import Imported, write_import


class CodeImports:
    """What this process has imported from the code directory."""

    def __init__(self, directory: str, list_path: str, cwd: str) -> None:
        self.directory = directory
        self.cwd = cwd
        """Where the same modules may have been imported from before they were synced."""
        self.loaded: dict[str, Imported] = {}
        """By module name; the newest last."""
        self._list_path = list_path
        self._pid = os.getpid()

    def note(self, imported: Imported) -> None:
        """Take in that a module was loaded (or, without a path, that it is gone)."""
        self.loaded.pop(imported.module, None)
        if imported.path:
            self.loaded[imported.module] = imported
        if os.getpid() != self._pid:
            return  # a process that user code has forked does not speak for the rank
        try:
            with open(self._list_path, "ab", buffering=0) as file:
                file.write(write_import(imported))
        except OSError:
            pass  # a full disk costs a hint, not the import

    def forget_missing(self, *_: object) -> None:
        """Note which modules are imported no longer, because that failed or they were deleted."""
        if not self.loaded:
            return
        present = sys.modules  # hundreds: no set of them is made after each cell
        for module in [module for module in self.loaded if module not in present]:
            self.note(Imported(module))


_present: CodeImports | None = None


class CodeLoader(SourceFileLoader):
    """Python's own loader of source files; it only notes what it loads."""

    def path_stats(self, path: Any) -> Any:
        """Return how old the source is: asked for right before it is loaded."""
        stats = super().path_stats(path)
        if _present is not None:
            _present.note(Imported(self.name, str(path), stats["mtime"]))
        return stats


def watch_imports(imports: CodeImports) -> None:
    """Put the code directory first on the path, and note from now on what comes from there."""
    global _present  # noqa: PLW0603  (one process, one code directory)
    _present = imports
    find = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES), (CodeLoader, SOURCE_SUFFIXES)
    )
    inner = f"{imports.directory}{os.sep}"

    def hook(path: str) -> Any:
        if path != imports.directory and not path.startswith(inner):
            raise ImportError("not of the code directory", path=path)
        return find(path)

    sys.path_hooks.insert(0, hook)
    sys.path.insert(0, imports.directory)


def present_imports() -> CodeImports | None:
    """Return the imports of this process; None in one that is no engine."""
    return _present
