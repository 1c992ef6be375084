"""A line below the error of a cell, where it is known what was probably meant."""

import difflib
import re
from typing import Any

from IPython.core.error import UsageError as IPythonUsageError

from jupyter_dist.errors import RankRaised
from jupyter_dist.magics.command import Shell, say

_NO_MAGIC = re.compile(r"(Line magic function|Cell magic) `%{1,2}(?P<name>\w+)` not found\.")
_NO_NAME = re.compile(r"name '(?P<name>\w+)' is not defined.*")
_OUR_MODULES = f"{__name__.partition('.')[0]}."


class Hints:
    """Called after each cell."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def __call__(self, result: Any) -> None:
        """Say what may help; nothing where the cell ended well, or in any other way."""
        error, hint = result.error_in_exec, ""
        if isinstance(error, IPythonUsageError) and (found := _NO_MAGIC.fullmatch(str(error))):
            hint = self._find_magic(found["name"])
        elif isinstance(error, RankRaised) and (found := _NO_NAME.fullmatch(error.evalue)):
            hint = self._find_name(found["name"])
        if hint:
            say(hint)

    def _find_magic(self, name: str) -> str:
        ours = {
            magic: "%%" if kind == "cell" else "%"
            for kind in ("line", "cell")
            for magic, call in self._shell.magics_manager.magics[kind].items()
            if getattr(call, "__module__", "").startswith(_OUR_MODULES)
        }
        near = difflib.get_close_matches(name, ours, 1)
        return f"Did you mean {ours[near[0]]}{near[0]}?" if near else ""

    def _find_name(self, name: str) -> str:
        if name not in self._shell.user_ns:
            return ""
        return (
            f"{name} is a name of the notebook: %dist_push {name} copies its value to the ranks; "
            "without %%spmd, or with %%local as its first line, a cell runs in the notebook."
        )


def install(shell: Shell) -> None:
    """Look at the error of each cell from now on."""
    shell.events.register("post_run_cell", Hints(shell))


def remove(shell: Shell) -> None:
    """Look no more."""
    for callback in tuple(shell.events.callbacks["post_run_cell"]):
        if isinstance(callback, Hints):
            shell.events.unregister("post_run_cell", callback)
