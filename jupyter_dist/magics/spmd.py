"""`%%spmd`: run a cell on every rank; `%dist_auto`: every cell; `%%local`: not this one."""

import re
from argparse import Namespace
from collections.abc import Sequence
from tokenize import COMMENT
from typing import TYPE_CHECKING, Any

from IPython.core.inputtransformer2 import make_tokens_by_line
from msgspec.structs import replace

from jupyter_dist.cluster.debugging.stops import find_stops
from jupyter_dist.errors import CellFailed, DistError, RankRaised, UsageError
from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.command import (
    CurrentCluster,
    MagicGroup,
    Shell,
    command,
    say,
    show_as_one_line,
)
from jupyter_dist.model.hosts.rank import name_ranks, parse_ranks
from jupyter_dist.model.ranks.typed_cells import count_lines_as_typed
from jupyter_dist.options.output_options import OutputStyle, read_style
from jupyter_dist.text.lists import Momentary

if TYPE_CHECKING:
    from jupyter_dist.cluster.cells.background_cell import BackgroundCell
    from jupyter_dist.cluster.result import SpmdResult
    from jupyter_dist.views.cell.cell_output import CellView

AUTO_CELL = "dist_auto"
"""The cell magic that `%dist_auto on` puts before a cell."""

_CELL_MAGIC = re.compile(r"(%%(?:spmd|local))\b")
_LOCAL = re.compile(r"%%local\b[^\S\n]*(?P<options>.*)")
_LINE_MAGIC = re.compile(r"\s*(#.*|\??([\w\s,]+=\s*)?%(dist_\w+|((re|un)?load_ext))\b.*)?$")


class AutoSpmd:
    """An input transformer: with `is_on` it turns cells into SPMD cells; `%%local` is its own."""

    # IPython then leaves it out when it asks whether what was typed so far is a whole cell.
    has_side_effects = True

    def __init__(self) -> None:
        self.is_on = False

    def __call__(self, lines: list[str]) -> list[str]:
        """Rewrite a cell for where it shall run; line numbers stay what they are.

        Raise UsageError for a cell magic of ours that is not the first line: IPython would run
        what stands above it and then look for a line magic of this name.
        """
        _check_magic_is_first(lines)
        if lines and _is_plain_local(lines[0]):
            body = lines[1:]
            is_magic = "".join(body).lstrip().startswith("%%")
            return body if is_magic else [f"#{lines[0]}", *body]
        return [f"%%{AUTO_CELL}\n", *lines] if self.takes(lines) else lines

    def takes(self, lines: Sequence[str]) -> bool:
        """Return whether this cell runs on every rank without saying so."""
        return self.is_on and not _stays_here(lines)


def _check_magic_is_first(lines: list[str]) -> None:
    """Raise UsageError naming the lines above `%%spmd` or `%%local`, if there are any."""
    if not any(map(_CELL_MAGIC.match, lines[1:])) or lines[0].startswith("%%"):
        return
    for tokens in make_tokens_by_line(lines):  # so that no line of a string is taken for a magic
        said = [token for token in tokens if token.string.strip() and token.type != COMMENT]
        if not said or said[0].string != "%" or said[0].start[1]:
            continue
        number = said[0].start[0]
        if found := _CELL_MAGIC.match(lines[number - 1]):
            above = "line 1 is" if number == 2 else f"lines 1-{number - 1} are"
            problem = UsageError(
                f"{found[1]} must come first in its cell, and {above} above it: put comments "
                "and code below that line. Nothing of this cell has run."
            )
            show_as_one_line(problem)
            raise problem


def _is_plain_local(line: str) -> bool:
    found = _LOCAL.match(line)
    return found is not None and not found["options"].strip()


def _stays_here(lines: Sequence[str]) -> bool:
    """Return whether it is a cell magic, or only our line magics, comments and blank lines."""
    text = "".join(lines).replace("\\\n", " ")
    return text.lstrip().startswith("%%") or all(map(_LINE_MAGIC.match, text.splitlines()))


class SpmdMagics(MagicGroup):
    """`%%spmd`, `%dist_auto` and `%%local`, for one shell."""

    def __init__(self, shell: Shell, current: CurrentCluster, auto: AutoSpmd) -> None:
        super().__init__(shell, current)
        self._auto = auto

    @command(accepted.SPMD)
    def spmd(self, options: Namespace, cell: str) -> "BackgroundCell | None":
        """Run the cell on every rank of the cluster, and show what they say, grouped.

        In the cell are `rank`, `world_size`, `local_rank`, `local_world_size` and `comm`;
        top-level `await`, `!command` and `%magic` work as in any cell. When a rank raises, its
        traceback is the error of this cell, so that Run All stops.
        """
        return self._begin(options, count_lines_as_typed(options.line, cell))

    @command(accepted.AUTO)
    def dist_auto(self, options: Namespace) -> None:
        """Run every cell from now on as if it began with `%%spmd` (on), or no longer (off).

        Cells that begin with `%%`, and cells of nothing but `%dist_…` lines, still run in the
        notebook; `%%local` as the first line keeps any other cell there.
        """
        if options.mode is None:
            where = "on every rank" if self._auto.is_on else "in the notebook"
            say(f"%dist_auto is {'on' if self._auto.is_on else 'off'}: cells run {where}")
            return
        is_on = options.mode == "on"
        if is_on:
            self._current.get()
        self._auto.is_on = is_on
        self._current.note_auto(is_on)

    @command(accepted.SPMD)
    def auto_cell(self, options: Namespace, cell: str) -> "BackgroundCell | None":
        """Run a cell that was typed without `%%spmd` while `%dist_auto` is on."""
        try:
            self._current.get()
        except UsageError as problem:
            raise UsageError(f"{problem} Or run cells in the notebook: %dist_auto off.") from None
        return self._begin(options, cell)

    @command(accepted.LOCAL)
    def local(self, options: Namespace, cell: str) -> None:  # noqa: ARG002
        """Run the cell in the notebook, also while `%dist_auto` is on."""
        # AutoSpmd takes `%%local` away before it comes to this, except inside another cell magic.
        self._shell.run_cell(cell).raise_error()

    def _begin(self, options: Namespace, code: str) -> "BackgroundCell | None":
        if not options.profile:
            if options.native:
                raise UsageError("--native is for a profile. Say --profile --native.")
            return self._run(options, code)
        from jupyter_dist.magics.profiling import run_profiled

        return run_profiled(self._shell, self._current, options, lambda: self._run(options, code))

    def _run(self, options: Namespace, code: str) -> "BackgroundCell | None":
        from jupyter_dist.cluster.spmd import give_up
        from jupyter_dist.views.widgets.live_view import choose_live_view

        cluster = self._current.get()
        wanted = cluster.select(options.ranks, options.on)
        ranks = range(cluster.world_size) if wanted is None else wanted
        shown = read_shown("--show", options.show, ranks)
        view: CellView = choose_live_view(
            self._shell, cluster, len(ranks), shown=shown, style=self._style(options)
        )
        stops = find_stops(options, code, ranks, self._current.stops)
        if self._current.job is not None:
            view = self._publish(view, cluster.name, ranks, shown, options)
        run: Any = cluster.run
        if options.background:
            run = cluster.run_in_background
            view.on_note(Momentary("runs in the background; cells that come after it wait for it"))
            view.on_tick()  # takes the place, which belongs to this cell
        try:
            begun = run(
                code,
                wanted,
                options.timeout_s,
                label=number_of_cell(self._shell),
                is_setup=options.setup,
                check=options.check or bool(stops and stops.on_mismatch),
                on_error=options.on_error or self._usual_on_error,
                one_answer=options.one_answer,
                stops=stops,
                tell_slowest=options.slowest,
                watcher=view,
            )
        except SyntaxError as error:
            if options.background:
                give_up(view, error)  # its place says that it runs
            raise as_ipython_shows(error, code, self._shell) from None
        except BaseException as problem:
            give_up(view, problem)
            raise
        if options.o is not None:
            self._shell.push({options.o: begun})
        if options.background:
            return None if options.o else begun
        finish_view(view, begun)
        return None

    def _publish(
        self,
        view: "CellView",
        cluster: str,
        ranks: Sequence[int],
        shown: Sequence[int] | None,
        options: Namespace,
    ) -> "CellView":
        """Return a view that also tells the command that runs this notebook as a job."""
        from jupyter_dist.cluster.jobs.job_events import SpmdBegan

        assert self._current.job is not None
        whose = None if shown is None else tuple(shown)
        style = self._style(options)
        began = SpmdBegan(cluster, tuple(ranks), whose, style, options.background)
        return self._current.job.published(view, began)

    @property
    def _usual_on_error(self) -> str:
        """A job that has failed is to end, and not to use its GPUs up."""
        return "release" if self._current.job is None else "interrupt"

    def _style(self, options: Namespace) -> OutputStyle:
        style = read_style(options, self._current.style)
        # It has a place from the beginning, for what it says while other cells run.
        return replace(style, is_final=style.is_final and not options.background)


def read_shown(flag: str, text: str | None, ranks: Sequence[int]) -> tuple[int, ...] | None:
    """Read whose outputs are to be shown (None: all) of these ranks, which have the cell."""
    if text is None:
        return None
    shown = parse_ranks(text, max(ranks) + 1)
    if others := set(shown) - set(ranks):
        raise UsageError(
            f"{flag} {text}: this cell is for {name_ranks(ranks)}, not for {name_ranks(others)}. "
            "Name ranks that it is for."
        )
    return shown


def number_of_cell(shell: Shell) -> int:
    """Return the number of the running cell; `execution_count` is one ahead in newer IPythons."""
    number: int = shell.displayhook.prompt_count
    return number


def finish_view(view: "CellView", result: "SpmdResult | None") -> None:
    """Show how a cell has ended (None: it goes on), and raise what went wrong."""
    failure = None if result is None else find_failure(result)
    view.finish(result, failure.rank if isinstance(failure, RankRaised) else None)
    if failure is not None:
        raise failure


def find_failure(result: "SpmdResult") -> CellFailed | None:
    """Return what `raise_first` raises, or None."""
    try:
        result.raise_first()
    except CellFailed as failure:
        return failure
    return None


def as_ipython_shows(error: SyntaxError, code: str, shell: Shell) -> DistError:
    """Make an error that shows as a SyntaxError of the notebook's own cell does.

    IPython adds the stack of the magic to a SyntaxError that a magic raises; and what knows no
    better shows an error by the name of its class.
    """
    text = str(error)
    error.filename = shell.compile.cache(code, number_of_cell(shell))
    lines = shell.SyntaxTB.structured_traceback(type(error), error, [])
    members = {"_render_traceback_": lambda _: lines}
    shown: DistError = type(type(error).__name__, (UsageError,), members)(text)
    return shown
