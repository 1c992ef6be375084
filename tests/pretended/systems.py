"""What the standard library lacks on a system other than this one, as typeshed has it.

`pretend` makes interpreters that start from then on show jupyter_dist such a system; libraries see
the one that is there, for they have ways of their own for each. What cannot be shown so is how that
system behaves: docs/reference/platforms.md says what was tried where.
"""

import ast
import json
import os
from functools import cache
from pathlib import Path

import mypy

_STUBS = Path(mypy.__file__).parent / "typeshed/stdlib"
_MODULES = (
    *("os", "signal", "socket", "select", "mmap", "time", "threading", "resource", "fcntl", "pwd"),
    *("grp", "termios", "tty", "pty", "syslog", "faulthandler", "posix"),
)
SITE = Path(__file__).parent / "other_system"


def variables_of(platform: str, folder: Path) -> dict[str, str]:
    """Return the variables of an interpreter that shows `darwin` or `win32` to our modules."""
    lacks = folder / f"{platform}.json"
    lacks.write_text(json.dumps({"platform": platform, "names": names_lacking(platform)}))
    paths = [str(SITE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PRETENDED_SYSTEM": str(lacks), "PYTHONPATH": os.pathsep.join(paths)}


@cache
def names_lacking(platform: str) -> dict[str, list[str] | None]:
    """Return what each module lacks there; None: there is no such module."""
    found: dict[str, list[str] | None] = {}
    for module in _MODULES:
        here, there = _names(module, "linux"), _names(module, platform)
        found[module] = sorted(here - there) if there else None
    return found


def _names(module: str, platform: str) -> set[str]:
    path = _STUBS / f"{module}.pyi"
    tree = ast.parse((path if path.exists() else _STUBS / module / "__init__.pyi").read_text())
    names = set(_defined(tree.body, platform))
    return names if any(not name.startswith("_") for name in names) else set()


def _defined(body: list[ast.stmt], platform: str):
    for node in body:
        match node:
            case ast.If(test=test, body=then, orelse=other):
                yield from _defined(then if _holds(test, platform) else other, platform)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.ImportFrom(names=names):
                yield from (each.asname for each in names if each.asname)
            case _:
                pass


def _holds(test: ast.expr, platform: str) -> bool:
    code = compile(ast.Expression(test), "<stub>", "eval")
    return bool(eval(code, {"sys": _System(platform)}))


class _System:
    version_info = (3, 11)

    def __init__(self, platform: str) -> None:
        self.platform = platform
