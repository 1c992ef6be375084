"""Calls us when a module is imported, so that nothing heavy is loaded before a user wants it."""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

OnImport = Callable[[ModuleType], None]


class ImportHooks(MetaPathFinder):
    """First in the order of finders; it finds nothing on its own, and asks the others."""

    def __init__(self) -> None:
        self._before: dict[str, list[Callable[[], None]]] = {}
        self._after: dict[str, list[OnImport]] = {}
        self._looking_for: set[str] = set()

    def install(self) -> None:
        """Be asked from now on."""
        sys.meta_path.insert(0, self)

    def before(self, module: str, call: Callable[[], None]) -> None:
        """Have this called when a module is about to be loaded, once; what it raises, import does.

        A call that raises stays, so that the next import is refused too.
        """
        self._before.setdefault(module, []).append(call)

    def after(self, module: str, call: OnImport) -> None:
        """Have this called with a module right after its code has run; at once if it has."""
        present = sys.modules.get(module)
        if present is not None:
            call(present)
        else:
            self._after.setdefault(module, []).append(call)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the others find it, and wrap its loader where someone wants to know."""
        del path, target
        if name in self._looking_for or not (name in self._before or name in self._after):
            return None
        self._looking_for.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking_for.discard(name)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _TellingLoader(spec.loader, self._begin, self._tell)
        return spec

    def _begin(self, name: str) -> None:
        """Tell that it is loaded in earnest, and not only looked for."""
        for call in self._before.get(name, ()):
            call()
        self._before.pop(name, None)

    def _tell(self, module: ModuleType) -> None:
        """Tell who wants to know that a module is there; an import that failed has told nobody."""
        for call in self._after.pop(module.__name__, ()):
            call(module)


class _TellingLoader(Loader):
    """A module's own loader, which tells when it is done."""

    def __init__(self, loader: Loader, begin: Callable[[str], None], tell: OnImport) -> None:
        self._loader = loader
        self._begin = begin
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create it as its loader does."""
        self._begin(spec.name)
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run its code, and tell; the module keeps its own loader."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._tell(module)
