"""How every magic is run: read its line, call it, show what we raise as one clear line."""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from jupyter_dist.errors import DistError, UsageError
from jupyter_dist.options.command_options import OptionParser
from jupyter_dist.text.lists import name_interrupt

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.views.cell.display_place import Display

Shell: TypeAlias = Any
"""An IPython `InteractiveShell`, which is typed only in parts, and in other parts each release."""


class CurrentCluster:
    """The cluster that the magics of one shell speak to."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None

    def get(self) -> "Cluster":
        """Return the cluster; raises UsageError naming how to get one."""
        if self._cluster is not None:
            return self._cluster
        from jupyter_dist.cluster.cluster import Cluster

        running = Cluster.running()
        attach = (
            f", or take one up with %dist_attach NAME ({', '.join(running)})" if running else ""
        )
        raise UsageError(f"this notebook has no cluster. Start one with %dist_start -n 4{attach}.")

    @property
    def running(self) -> "Cluster | None":
        """The cluster, if there is one and it runs."""
        is_running = self._cluster is not None and self._cluster.is_running
        return self._cluster if is_running else None

    def set(self, cluster: "Cluster | None") -> "Cluster | None":
        """Speak to this cluster, or to none, from now on; gives the one before."""
        before, self._cluster = self._cluster, cluster
        return before


class MagicGroup:
    """Magics of one shell, all of which speak to its cluster."""

    def __init__(self, shell: Shell, current: CurrentCluster) -> None:
        self._shell = shell
        self._current = current


def command(parser: OptionParser) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a method a magic: it gets its options read (with the `line` they came from)."""

    def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def run(self: Any, line: str, cell: str | None = None) -> Any:
            try:
                options = parser.read(line)
                options.line = line
                return method(self, options) if cell is None else method(self, options, cell)
            except (DistError, KeyboardInterrupt) as error:
                show_as_one_line(error)
                raise

        run.__doc__ = explain(parser, inspect.getdoc(method) or "")
        return run

    return decorate


def explain(parser: OptionParser, text: str) -> str:
    """Write what `%magic?` shows: the text, the options, an example."""
    table = parser.table()
    options = f"Options::\n\n{table}\n\n" if table else ""
    return f"{text}\n\n{options}Example::\n\n    {parser.example}\n"


def show_as_one_line(error: DistError | KeyboardInterrupt) -> None:
    """Let IPython show this error without the notebook's own stack, unless it knows better."""
    if not hasattr(error, "_render_traceback_"):
        kind = type(error).__name__
        lines = [f"{kind}: {error}" if str(error) else kind]
        vars(error)["_render_traceback_"] = lambda: lines


def is_notebook(shell: Shell) -> bool:
    """Return whether a front end of Jupyter shows what this shell displays."""
    return getattr(shell, "kernel", None) is not None


def find_display(shell: Shell) -> "Display | None":
    """Return IPython's `display` in a notebook; None in a terminal."""
    from IPython.display import display

    from jupyter_dist.views.cell.display_place import can_replace

    return display if can_replace(shell) else None


def word_for(shell: Shell, text: str) -> str:
    """Return what is said of ■ as it holds in this shell: a terminal has no such button."""
    return name_interrupt(text) if find_display(shell) is None else text


def say(text: str) -> None:
    """Tell the person one thing."""
    sys.stdout.write(f"{text}\n")
