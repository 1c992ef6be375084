"""Where synced code lies on a host, and what its ranks have imported from there.

Each rank keeps a list of its imports in a file, so that the agent can tell without asking a rank
that is busy.
"""

from collections.abc import Mapping

import msgspec


class Imported(msgspec.Struct, frozen=True, array_like=True):
    """One module that a rank has imported; without a path: that it has no longer."""

    module: str
    path: str = ""
    changed_s: float = 0.0
    """When that version of the file was written, as `st_mtime`; each version has its own."""


def code_dir(run_dir: str) -> str:
    """Return the directory of synced code, first on the path of each rank."""
    return f"{run_dir}/code"


def imports_path(run_dir: str, engine: str) -> str:
    """Return the file in which an engine lists what it has imported from the code directory."""
    return f"{run_dir}/rank-{engine}.imports"


def write_import(imported: Imported) -> bytes:
    """Return the line that is appended to the list."""
    return msgspec.json.encode(imported) + b"\n"


def read_imports(data: bytes) -> Mapping[str, Imported]:
    """Return what is imported, by module name; the last line about it counts, if it is whole."""
    found: dict[str, Imported] = {}
    for line in data.splitlines():
        try:
            imported = msgspec.json.decode(line, type=Imported)
        except msgspec.DecodeError:
            continue
        found.pop(imported.module, None)
        if imported.path:
            found[imported.module] = imported
    return found
