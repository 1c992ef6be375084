"""Shift-Tab on a name that only the ranks have, and `name?`."""

import html
import re
from collections.abc import Sequence
from typing import Any

from jupyter_dist.errors import DistError
from jupyter_dist.magics.command import CurrentCluster, Shell

_RANK = 0
_HELP_MAGICS = ("pinfo", "pinfo2")
"""In the order of the detail that they show."""
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""A dotted name: only such can be looked up without running code."""


class RankInspector:
    """A shell's `object_inspect_mime` that asks a rank where the notebook knows nothing."""

    def __init__(self, shell: Shell, current: CurrentCluster) -> None:
        self._inspect_here = shell.object_inspect_mime
        self._current = current

    def __call__(
        self, oname: str, detail_level: int = 0, omit_sections: Sequence[str] = ()
    ) -> dict[str, str]:
        """Return a MIME bundle; raises KeyError where nobody has such a name."""
        try:
            found: dict[str, str] = self._inspect_here(oname, detail_level, omit_sections)
        except KeyError:
            found = self.inspect_there(oname, detail_level)
            if not found:
                raise
        return found

    def inspect_there(self, name: str, detail: int) -> dict[str, str]:
        """Return what the rank knows of it; nothing where it knows nothing, or is silent."""
        try:
            cluster = self._current.running
            if cluster is None or _NAME.fullmatch(name) is None:
                return {}
            bundle = cluster.inspect(name, _RANK, detail=detail)
        except DistError:  # it ended at this moment
            return {}
        return _tell_where(bundle) if bundle else {}


class HelpMagic:
    """`%pinfo`, as which IPython runs `name?`, and `%pinfo2` for `name??`."""

    def __init__(self, shell: Shell, inspector: RankInspector, name: str, detail: int) -> None:
        self.before = shell.find_line_magic(name)  # loads it, where IPython has not done so yet
        self.__doc__ = self.before.__doc__
        self._shell = shell
        self._inspector = inspector
        self._detail = detail

    def __call__(self, parameter_s: str = "", namespaces: Any = None) -> None:
        """Show what the notebook knows of a name, else what the rank knows of it."""
        from IPython.core.page import page

        name = parameter_s.strip()
        is_here = not _NAME.fullmatch(name) or self._shell.object_inspect(name)["found"]
        bundle = {} if is_here else self._inspector.inspect_there(name, self._detail)
        if bundle:
            page(bundle)
        else:
            self.before(parameter_s, namespaces)


def _tell_where(bundle: dict[str, str]) -> dict[str, str]:
    """Begin with whose object it is; the kernel wants text and HTML always."""
    where = f"on rank {_RANK}"
    text = bundle.get("text/plain", "")
    page = bundle.get("text/html") or f"<pre>{html.escape(text)}</pre>"
    return {**bundle, "text/plain": f"{where}\n{text}", "text/html": f"<div>{where}</div>{page}"}


def install(shell: Shell, current: CurrentCluster) -> None:
    """Look on a rank for names that the notebook does not have."""
    inspector = RankInspector(shell, current)
    shell.object_inspect_mime = inspector
    magics = shell.magics_manager.magics["line"]
    for detail, name in enumerate(_HELP_MAGICS):
        magics[name] = HelpMagic(shell, inspector, name, detail)


def remove(shell: Shell) -> None:
    """Leave inspection as it was, unless someone else has changed it meanwhile."""
    if isinstance(vars(shell).get("object_inspect_mime"), RankInspector):
        del shell.object_inspect_mime
    magics = shell.magics_manager.magics["line"]
    for name in _HELP_MAGICS:
        if isinstance(magics.get(name), HelpMagic):
            magics[name] = magics[name].before
