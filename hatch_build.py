"""Build the JupyterLab panel into wheels and source archives, where node and npm are there.

`JUPYTER_DIST_LABEXTENSION` says how: `auto` builds it when it can be built and goes on without it
when not, `require` fails without it, `skip` leaves it out. docs/decisions/0018 has the reasons.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CHOICE_VARIABLE = "JUPYTER_DIST_LABEXTENSION"
CHOICES = ("auto", "skip", "require")
OLDEST_NODE = (20, 19)

_PACKAGE = "labextension"
_BUILT = "jupyter_dist/labextension"
_SHARE = "share/jupyter/labextensions/@jupyter-dist/labextension"
_SOURCES = (
    "labextension/package.json",
    "labextension/package-lock.json",
    "labextension/tsconfig.json",
    "labextension/webpack.config.cjs",
    "labextension/src",
    "labextension/style",
    "labextension/schema",
    "jupyter_dist/views/topology/static",
)
# A second build of the same sources takes no time; the bundler clears this folder first.
_FINGERPRINT = f"{_BUILT}/static/sources.sha256"
_LONGEST_S = 600
# npm's own bounds, five minutes for each of three tries, look like a pip that hangs.
_PATIENCE = ("--fetch-timeout=60000", "--fetch-retries=1")
_NODE_VERSION = re.compile(r"v(\d+)\.(\d+)")
_HOW_TO_GET_IT = (
    f"To have the panel, install Node.js {OLDEST_NODE[0]}.{OLDEST_NODE[1]} or newer with npm "
    f"and install jupyter-dist again, with {CHOICE_VARIABLE}=require to be sure of it."
)


class PanelNotBuilt(Exception):
    """The panel cannot be built; the text says why and how it can."""


class PanelBuildHook(BuildHookInterface[Any]):
    """Builds the panel before a wheel (editable or not) or a source archive is made."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Build what is wanted and can be built, and name it as part of the wheel."""
        root = Path(self.root)
        choice = read_choice(os.environ)
        if choice == "skip":
            return
        try:
            ensure_panel(root)
        except PanelNotBuilt as problem:
            if choice == "require":
                raise
            self.app.display_warning(f"jupyter-dist comes without its JupyterLab panel: {problem}")
            return
        if self.target_name == "wheel":
            build_data["shared_data"].update(shared_data(root))


def read_choice(environ: Mapping[str, str]) -> str:
    """Tell from the environment whether the panel is to be built: one of CHOICES."""
    choice = environ.get(CHOICE_VARIABLE) or "auto"
    if choice not in CHOICES:
        raise ValueError(f"{CHOICE_VARIABLE}={choice!r}: accepted are {', '.join(CHOICES)}")
    return choice


def ensure_panel(root: Path) -> None:
    """Build the panel unless what was built last comes from the same sources."""
    wanted = fingerprint(root)
    note = root / _FINGERPRINT
    if note.is_file() and note.read_text(encoding="ascii") == wanted:
        return
    npm = find_npm()
    if not has_packages(root):
        _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", *_PATIENCE], root)
    _run([npm, "run", "build"], root)
    note.write_text(wanted, encoding="ascii")


def fingerprint(root: Path) -> str:
    """Sum up everything that the panel is built from (SHA-256, hexadecimal)."""
    digest = hashlib.sha256()
    for path in _source_files(root):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(root).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def find_npm() -> str:
    """Find npm, and a node that is new enough for it to be of use."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        absent = " and ".join(name for name, path in (("node", node), ("npm", npm)) if not path)
        raise PanelNotBuilt(f"not found: {absent}. {_HOW_TO_GET_IT}")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    if not is_new_enough(said):
        raise PanelNotBuilt(f"{node} is version {said.strip() or 'unknown'}. {_HOW_TO_GET_IT}")
    return npm


def is_new_enough(said: str) -> bool:
    """Tell from the answer of `node --version` whether the panel can be built with it."""
    found = _NODE_VERSION.match(said)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_NODE


def has_packages(root: Path) -> bool:
    """Tell whether npm has installed what the lock file names; npm writes a note last."""
    lock = root / _PACKAGE / "package-lock.json"
    note = root / _PACKAGE / "node_modules" / ".package-lock.json"
    return note.is_file() and note.stat().st_mtime >= lock.stat().st_mtime


def shared_data(root: Path) -> dict[str, str]:
    """Give the built files and where they go below the environment's prefix."""
    built = root / _BUILT
    files = {
        path.relative_to(root).as_posix(): f"{_SHARE}/{path.relative_to(built).as_posix()}"
        for path in sorted(built.rglob("*"))
        if path.is_file() and path != root / _FINGERPRINT
    }
    return {**files, f"{_PACKAGE}/install.json": f"{_SHARE}/install.json"}


def _source_files(root: Path) -> Iterator[Path]:
    for name in _SOURCES:
        path = root / name
        if path.is_file():
            yield path
            continue
        yield from sorted(each for each in path.rglob("*") if each.is_file())


def _run(command: list[str], root: Path) -> None:
    words = " ".join(command)
    try:
        done = subprocess.run(
            command, cwd=root / _PACKAGE, capture_output=True, text=True, check=False,
            timeout=_LONGEST_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PanelNotBuilt(
            f"{words} has not ended in {_PACKAGE} within {_LONGEST_S} s. {_HOW_TO_GET_IT}"
        ) from None
    if done.returncode == 0:
        return
    said = f"{done.stdout}\n{done.stderr}".strip()
    told = "\n".join(said.splitlines()[-40:])
    raise PanelNotBuilt(f"{words} failed in {_PACKAGE}:\n{told}\n{_HOW_TO_GET_IT}")
