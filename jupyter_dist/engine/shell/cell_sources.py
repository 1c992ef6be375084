"""Sources of cells: those of the last cells, and of older ones whose functions still live."""

import contextlib
import inspect
import linecache
import os
import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import msgspec
from IPython.core.compilerop import CachingCompiler

from jupyter_dist.model.ranks.source_files import name_cell_file, write_file_name

KEPT_CELLS = 1000
"""As many of the last cells keep their source, whatever becomes of what they defined."""
_LOOK_AFTER = 256
"""After so many cells more it is looked which older ones can go."""


class _ExtraFlags(msgspec.Struct):
    """A block in which a compiler has more flags; what `__future__` has set meanwhile stays."""

    compiler: CachingCompiler
    turned_on: int

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        self.compiler.flags &= ~self.turned_on


class RankCompiler(CachingCompiler):
    """Gives each cell a file that exists, so that debuggers can open it."""

    source_dir = ""
    writes_sources = False
    last_path = ""
    """File of the cell that was compiled last."""
    on_file: Callable[[str], None] | None = None
    """Is called with the file of each cell before the cell begins; the cell waits for it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._living: dict[str, list[weakref.ref[CodeType]]] = {}
        """By file, oldest first: the code of functions and classes that the cell has defined."""
        self._look_at = KEPT_CELLS + _LOOK_AFTER
        """So many files are known when it is looked the next time."""

    def __call__(self, source: Any, filename: str, *arguments: Any, **options: Any) -> Any:
        """Compile a statement, and remember which code belongs to its cell."""
        code = super().__call__(source, filename, *arguments, **options)
        living = self._living.get(filename)
        if living is not None and len(code.co_consts) > 1:
            living.extend(map(weakref.ref, _within(code)))
        return code

    def extra_flags(self, flags: int) -> "_ExtraFlags":  # type: ignore[override]
        """Compile with these flags in a `with` block, as IPython does by a generator."""
        turned_on = flags & ~self.flags
        self.flags |= flags
        return _ExtraFlags(self, turned_on)

    def cache(self, transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        """Keep the cell's source for tracebacks; forget that of cells which nobody can call."""
        name = super().cache(transformed_code, number, raw_code)
        if self.source_dir and name.startswith(self.source_dir):
            self._living[name] = self._living.pop(name, [])
            # Else a traceback looks for it among all modules, which ranks share until they do.
            inspect.modulesbyfile[name] = "__main__"
            if len(self._living) >= self._look_at:
                self._forget_dead()
        return name

    def get_code_name(self, raw_code: str, transformed_code: str, number: int) -> str:
        """Name the cell's file, and write it once per host."""
        path = self.last_path = f"{self.source_dir}/{write_file_name(number, raw_code)}"
        if self.writes_sources:
            _write_whole(path, transformed_code.encode(errors="replace"))
        if self.on_file is not None:
            self.on_file(path)
        return path

    def format_code_name(self, name: str) -> tuple[str, str] | None:
        """Name a cell in tracebacks, also one whose source is gone."""
        if self.source_dir and name.startswith(self.source_dir):
            return "Cell", name_cell_file(name)
        return super().format_code_name(name)

    def _forget_dead(self) -> None:
        for name in list(self._living)[:-KEPT_CELLS]:
            if living := [code for code in self._living[name] if code() is not None]:
                self._living[name] = living
                continue
            del self._living[name]
            self._filename_map.pop(name, None)
            linecache.cache.pop(name, None)
            inspect.modulesbyfile.pop(name, None)
            if self.writes_sources:
                with contextlib.suppress(OSError):
                    os.unlink(name)
        # Where many live, each look costs more, and comes so much later.
        self._look_at = len(self._living) + max(_LOOK_AFTER, len(self._living) // 4)


def _write_whole(path: str, content: bytes) -> None:
    """Write a file that other ranks may write too, while their debuggers read it."""
    unfinished = f"{path}.{os.getpid()}"
    try:
        source = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.write(source, content)
        finally:
            os.close(source)
        os.replace(unfinished, path)
    except OSError:  # a full disk costs the debugger its file, not the user the cell
        with contextlib.suppress(OSError):
            os.unlink(unfinished)


def _within(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of all functions and classes that this code defines."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _within(constant)
