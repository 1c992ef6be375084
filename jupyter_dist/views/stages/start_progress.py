"""How the start of a cluster goes: a bar and its hosts, in the end one line."""

from collections.abc import Mapping, Sequence

from jupyter_dist.protocol.messages import StartProgress
from jupyter_dist.text.plurals import count_of
from jupyter_dist.views.cell.display_place import Display, Place, line_bundle
from jupyter_dist.views.cell.terminal import Terminal
from jupyter_dist.views.stages.stage_bar import bar_bundle
from jupyter_dist.views.stages.start_table import passed_text, start_line, table_html, table_lines


class StartProgressView:
    """Show how far each host is and which ranks are ready; pass its `on_progress`.

    `display` is IPython's in a notebook, or a Terminal (None: one on `sys.stdout`). Without a
    TTY only the last line is written.
    """

    def __init__(self, *, display: Display | Terminal | None = None) -> None:
        self._place = Place(display)
        self._last: StartProgress | None = None

    def on_progress(self, progress: StartProgress) -> None:
        """Show how far the start is; the same state twice is shown once."""
        if progress == self._last:
            return
        self._last = progress
        words = _words(progress)
        table = table_html(progress.hosts) if progress.hosts else ""
        bundle = bar_bundle(progress.ready_ranks / max(1, progress.world_size), words, table)
        self._place.show_now(words if progress.hosts else bundle["text/plain"], bundle)

    @property
    def passed_s(self) -> Mapping[str, float]:
        """How long the stages took that are over, in seconds."""
        return self._last.passed_s if self._last is not None else {}

    def finish(self, text: str) -> None:
        """Replace everything by one line: `cluster x: 4 ranks ready in 0.8 s`."""
        self._place.leave(text, line_bundle(text, style="white-space:pre-wrap"))

    def fail(self, text: str) -> None:
        """Replace the bar by the reason of the failure; who was how far stays to be seen."""
        hosts = self._last.hosts if self._last is not None else ()
        table = table_html(hosts) if hosts else ""
        style = "border-left:3px solid rgb(217,67,59);padding-left:6px;white-space:pre-wrap"
        lines = "\n".join([text, *table_lines(hosts)])
        self._place.leave(lines, {**line_bundle(text, table, style), "text/plain": lines})


def ready_text(
    name: str,
    world_size: int,
    ready_s: float | None,
    notes: Sequence[str],
    passed_s: Mapping[str, float] | None = None,
) -> str:
    """Write the last line of a start that went well; below it what to know about the hosts.

    Without seconds (None) it says what is the same in each run.
    """
    ranks = count_of(world_size, "rank")
    stages = f" ({passed_text(passed_s)})" if passed_s else ""
    took = "" if ready_s is None else f" in {ready_s:.1f} s{stages}"
    first = f"cluster {name}: {ranks} ready{took}"
    return "\n".join([first, *(f"note: {note}" for note in notes)])


def _words(progress: StartProgress) -> str:
    """Write what stands beside the bar; ranks are counted once the hosts have told theirs."""
    if progress.hosts:
        return start_line(progress)
    if not progress.world_size:
        return progress.stage
    return f"{progress.ready_ranks}/{progress.world_size} ranks ready · {progress.stage}"
