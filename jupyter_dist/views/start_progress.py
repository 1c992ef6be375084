"""How the start of a cluster goes: a bar and its hosts, in the end one line."""

import html
from collections.abc import Mapping, Sequence

from jupyter_dist.protocol.messages import StartProgress
from jupyter_dist.views.place import Display, Place
from jupyter_dist.views.start_table import passed_text, start_line, table_html, table_lines
from jupyter_dist.views.terminal import Terminal

_TEXT_BAR_WIDTH = 20
_INDENT = "margin-left:8px"
"""To the edge of what a notebook prints itself."""


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
        if self._place.terminal is not None:
            self._place.terminal.show_status(
                _words(progress) if progress.hosts else _text_bar(progress)
            )
        else:
            self._show(_html_bar(progress), _text_bar(progress))

    @property
    def passed_s(self) -> Mapping[str, float]:
        """How long the stages took that are over, in seconds."""
        return self._last.passed_s if self._last is not None else {}

    def finish(self, text: str) -> None:
        """Replace everything by one line: `cluster x: 4 ranks ready in 0.8 s`."""
        self._end(text, "")

    def fail(self, text: str) -> None:
        """Replace the bar by the reason of the failure; who was how far stays to be seen."""
        hosts = self._last.hosts if self._last is not None else ()
        table = table_html(hosts) if hosts else ""
        style = "border-left:3px solid rgb(217,67,59);padding-left:6px;"
        self._end("\n".join([text, *table_lines(hosts)]), style, (text, table))

    def _end(self, text: str, style: str, parts: tuple[str, str] | None = None) -> None:
        """Show this for good; `parts` are the words and the markup for it in a notebook."""
        if self._place.terminal is not None:
            self._place.terminal.show_status("")
            self._place.terminal.write_lines(text.splitlines())
            return
        words, more = parts or (text, "")
        body = html.escape(words, quote=False)
        self._show(f'<div style="{_INDENT};{style}white-space:pre-wrap">{body}{more}</div>', text)

    def _show(self, markup: str, text: str) -> None:
        self._place.show({"text/html": markup, "text/plain": text})


def ready_text(
    name: str,
    world_size: int,
    ready_s: float,
    notes: Sequence[str],
    passed_s: Mapping[str, float] | None = None,
) -> str:
    """Write the last line of a start that went well; below it what to know about the hosts."""
    ranks = "1 rank" if world_size == 1 else f"{world_size} ranks"
    stages = f" ({passed_text(passed_s)})" if passed_s else ""
    first = f"cluster {name}: {ranks} ready in {ready_s:.1f} s{stages}"
    return "\n".join([first, *(f"note: {note}" for note in notes)])


def _share(progress: StartProgress) -> float:
    return min(1.0, progress.ready_ranks / max(1, progress.world_size))


def _words(progress: StartProgress) -> str:
    """Write what stands beside the bar; ranks are counted once the hosts have told theirs."""
    if progress.hosts:
        return start_line(progress)
    if not progress.world_size:
        return progress.stage
    return f"{progress.ready_ranks}/{progress.world_size} ranks ready · {progress.stage}"


def _text_bar(progress: StartProgress) -> str:
    done = round(_share(progress) * _TEXT_BAR_WIDTH)
    bar = "█" * done + "░" * (_TEXT_BAR_WIDTH - done)
    return f"{bar} {_words(progress)}"


def _html_bar(progress: StartProgress) -> str:
    percent = round(100 * _share(progress))
    track = "width:200px;height:4px;background-color:rgba(128,128,128,0.25)"
    fill = f"width:{percent}%;height:4px;background-color:rgb(59,130,246)"
    words = html.escape(_words(progress), quote=False)
    table = table_html(progress.hosts) if progress.hosts else ""
    return (
        f'<div style="{_INDENT}">{words}<div style="{track}"><div style="{fill}"></div></div>'
        f"{table}</div>"
    )
