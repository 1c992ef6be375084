"""How every magic is run: read its line, call it, show what we raise as one clear line."""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from jupyter_dist.errors import DistError, UsageError
from jupyter_dist.options.command_options import OptionParser
from jupyter_dist.options.output_options import OutputStyle
from jupyter_dist.text.lists import name_interrupt

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.magics.job import Job
    from jupyter_dist.protocol.messages import Stops
    from jupyter_dist.views.cell.display_place import Display

Shell: TypeAlias = Any
"""An IPython `InteractiveShell`, which is typed only in parts, and in other parts each release."""


class CurrentCluster:
    """The cluster that the magics of one shell speak to."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self.style = OutputStyle()
        """How cells are shown that say nothing about it."""
        self.job: Job | None = None
        """That which this shell's notebook is, where `jupyter dist run` runs it."""
        self._is_auto = False
        self.stops: Stops | None = None
        """When ranks stop in the debugger in cells that say nothing about it."""

    def get(self) -> "Cluster":
        """Return the cluster; raises UsageError naming how to get one."""
        if self._cluster is None and self.job is not None and self.job.cluster:
            self.set(self.job.visit())
        if self._cluster is not None:
            return self._cluster
        from jupyter_dist.cluster.cluster import Cluster

        running = Cluster.running()
        attach = (
            f", or take one up with %dist_attach NAME ({', '.join(running)})" if running else ""
        )
        raise UsageError(f"this notebook has no cluster. Start one with %dist_start -n 4{attach}.")

    @property
    def is_of_job(self) -> bool:
        """The cluster is, or will be, that of the command that runs this notebook."""
        named = self.job.cluster if self.job is not None else ""
        return bool(named) and (self._cluster is None or self._cluster.name == named)

    @property
    def running(self) -> "Cluster | None":
        """The cluster, if there is one and it runs."""
        is_running = self._cluster is not None and self._cluster.is_running
        return self._cluster if is_running else None

    def set(self, cluster: "Cluster | None") -> "Cluster | None":
        """Speak to this cluster, or to none, from now on; gives the one before."""
        before, self._cluster = self._cluster, cluster
        if self._is_auto and cluster is not None:
            cluster.note_auto(True)
        return before

    def note_auto(self, is_on: bool) -> None:
        """Let pages that show the cluster know whether all cells of this shell run on it."""
        is_news, self._is_auto = is_on != self._is_auto, is_on
        if is_news and (running := self.running) is not None:
            running.note_auto(is_on)


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


def show_markup(shell: Shell, markup: str, text: str) -> None:
    """Display it in a notebook; write its text elsewhere."""
    if not is_notebook(shell):
        say(text.rstrip())
        return
    from IPython.display import display

    show: Callable[..., object] = display
    show({"text/html": markup, "text/plain": text}, raw=True)


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
