"""Loads modules again whose source has changed, in an order in which each finds the new ones.

A module that imports from a changed one holds parts of it, so it is loaded again as well, after
that one: that order is found from the import statements themselves. The order of `sys.modules`
would not do, for it has a package before the modules that the package imports from. Where modules
import each other in a circle, and in the cells' own names, parts of the old modules are replaced
by those of the new ones afterwards.
"""

import ast
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType, ModuleType, NoneType, TracebackType
from typing import Any

from IPython.core.getipython import get_ipython

from jupyter_dist.engine.code.code_imports import CodeImports, present_imports
from jupyter_dist.model.transfer.code_place import Imported

_unfinished: set[str] = set()
"""Modules that an earlier reload should have loaded again, but has not, because one failed."""


def reload_changed() -> None:
    """Load every imported module of the code directory again that has changed, or imports such.

    A module keeps what it had if its new source fails; that error is raised. Objects keep their
    old classes.
    """
    __tracebackhide__ = True  # IPython shows the error as if the cell itself had imported
    imports = present_imports()
    if imports is None:
        return
    importlib.invalidate_caches()
    modules = dict(_synced_modules(imports))
    changed = {name for name in modules if _has_changed(name, modules[name], imports)}
    changed |= _unfinished & modules.keys()
    graph = {name: _imports_of(name, modules, imports) for name in modules}
    order = order_of_reload(graph, changed)
    _unfinished.update(order)
    for name in order:  # modules are looked for where their package was loaded from
        if hasattr(modules[name], "__path__"):
            modules[name].__path__ = [os.path.dirname(_source_path(name, modules[name], imports))]
    replaced: list[tuple[ModuleType, dict[str, Any]]] = []
    try:
        for name in order:
            replaced.append((modules[name], _reload(modules[name], imports)))
            _unfinished.discard(name)
    finally:
        spaces = [vars(module) for module in modules.values()]
        shell = get_ipython()
        if shell is not None:
            spaces.append(shell.user_ns)
        for module, before in replaced:
            replace_parts(module, before, spaces)
    if order:
        sys.stdout.write(f"loaded again: {', '.join(order)}\n")


def order_of_reload(graph: Mapping[str, Iterable[str]], changed: Iterable[str]) -> list[str]:
    """Return the changed modules and those that import them, each after what it imports.

    `graph` has what each module imports. In a circle someone must begin: whoever comes first.
    """
    affected = set(changed)
    while more := {name for name in graph.keys() - affected if affected & set(graph[name])}:
        affected |= more
    order: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        for imported in graph[name]:
            if imported in affected:
                visit(imported)
        order.append(name)

    for name in graph:
        if name in affected:
            visit(name)
    return order


def find_imports(source: str, package: str, modules: Iterable[str]) -> list[str]:
    """Name those of the modules that this source imports while it is loaded, in its order.

    `package` is what its relative imports are relative to. What functions import counts not: it
    is looked up again whenever they run.
    """
    known = set(modules)
    found: dict[str, None] = {}
    for node in _top_level(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found |= dict.fromkeys(name for name in _prefixes(alias.name) if name in known)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            try:
                base = importlib.util.resolve_name(base, package) if node.level else base
            except ImportError:
                continue  # too many dots: it cannot have been imported
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found |= dict.fromkeys([inner] if inner in known else known & {base})
    return list(found)


def replace_parts(
    module: ModuleType, before: Mapping[str, Any], spaces: Iterable[dict[str, Any]]
) -> None:
    """Let names in these namespaces that still lead to parts of the old module lead to the new.

    Functions and classes are found under whatever name, anything else under its own only. Numbers
    and strings are left alone: a 0 is the same object wherever it comes from.
    """
    now = vars(module)
    old = {
        name: value
        for name, value in before.items()
        if not (name.startswith("__") or _is_shared(value)) and now.get(name, value) is not value
    }
    renamed = {id(value): name for name, value in old.items() if _is_own(value, module)}
    for space in spaces:
        if space is now:
            continue
        for name, value in list(space.items()):
            if name in old and value is old[name]:
                space[name] = now[name]
            elif id(value) in renamed and value is old[renamed[id(value)]]:
                space[name] = now[renamed[id(value)]]


def _is_shared(value: object) -> bool:
    """Return whether equal values may be one object without having been handed on."""
    return isinstance(value, int | str | bytes | NoneType) or (
        isinstance(value, tuple | frozenset) and not value
    )


def _is_own(value: object, module: ModuleType) -> bool:
    return isinstance(value, FunctionType | type) and value.__module__ == module.__name__


def _synced_modules(imports: CodeImports) -> Iterator[tuple[str, ModuleType]]:
    """Yield imported modules that lie in the code directory, or would if imported now."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        is_old = file.startswith(f"{imports.cwd}{os.sep}")
        is_synced = file.startswith(f"{imports.directory}{os.sep}")
        if (is_synced or is_old) and _source_path(name, module, imports):
            yield name, module


def _source_path(name: str, module: ModuleType, imports: CodeImports) -> str:
    """Return the file in the code directory that this module has, or would have; empty if none."""
    place = os.path.join(imports.directory, *name.split("."))
    path = os.path.join(place, "__init__.py") if hasattr(module, "__path__") else f"{place}.py"
    return path if os.path.isfile(path) else ""


def _has_changed(name: str, module: ModuleType, imports: CodeImports) -> bool:
    """Return whether the module has another source now than when it was loaded."""
    path = _source_path(name, module, imports)
    loaded = imports.loaded.get(name)
    return loaded is None or loaded.path != path or loaded.changed_s != os.stat(path).st_mtime


def _imports_of(name: str, modules: Mapping[str, ModuleType], imports: CodeImports) -> list[str]:
    module = modules[name]
    package = name if hasattr(module, "__path__") else name.rpartition(".")[0]
    try:
        with open(_source_path(name, module, imports), "rb") as file:
            source = importlib.util.decode_source(file.read())
        return find_imports(source, package, modules)
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return []  # loading it will say what is wrong


def _reload(module: ModuleType, imports: CodeImports) -> dict[str, Any]:
    """Load the module again; give what it had before, which it has again if that fails."""
    __tracebackhide__ = True
    before, loaded = dict(vars(module)), imports.loaded.get(module.__name__)
    try:
        importlib.reload(module)
    except BaseException as error:
        now = vars(module)
        for name in now.keys() - before.keys():
            del now[name]
        now.update(before)
        imports.note(loaded or Imported(module.__name__))
        error.__traceback__ = _without_importlib(error.__traceback__)
        raise
    return before


def _without_importlib(trace: TracebackType | None) -> TracebackType | None:
    """Begin a traceback where the module begins, as an import statement does."""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file not in (__file__, importlib.__file__) and not file.startswith("<frozen importlib"):
            break
        trace = trace.tb_next
    return trace


def _top_level(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement that runs when the source is loaded."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        yield node
        yield from _top_level(node)


def _prefixes(name: str) -> Iterator[str]:
    """Give `a`, `a.b` and `a.b.c` of `a.b.c`."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count])
