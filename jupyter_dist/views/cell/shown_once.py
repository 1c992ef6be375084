"""A cell that is shown once, when it has ended: for logs, nbval and `%%capture`."""

import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec.structs import replace

from jupyter_dist.views.cell.cell_picture import CellPicture
from jupyter_dist.views.cell.display_place import Display
from jupyter_dist.views.cell.output_html import saved_bundle
from jupyter_dist.views.cell.output_text import block_lines
from jupyter_dist.views.cell.terminal import Terminal, write_text
from jupyter_dist.views.outputs.ansi import strip_ansi
from jupyter_dist.views.outputs.blocks import Block
from jupyter_dist.views.outputs.grouping import Entry
from jupyter_dist.views.outputs.lines import encodable

_STREAMS = ("stdout", "stderr")
_OTHERS = ("display", "note")


class ShownOnce:
    """A screen that hands the final picture to `show`, unless it is empty."""

    shows_lines_at_end = True

    def __init__(self, show: Callable[[CellPicture], None]) -> None:
        self._show = show

    def take(self, ranks: Sequence[int], entries: Sequence[Entry], now_s: float) -> None:
        """Do nothing: the record has it."""

    def note(self, text: str, *, is_new: bool) -> None:
        """Do nothing: the record has it."""

    def tick(self, now_s: float) -> None:
        """Do nothing: nothing is shown before the end."""

    def show_all(self, now_s: float) -> None:
        """Do nothing, also before a question: it names the rank that asks."""

    def finish(self, picture: CellPicture, now_s: float) -> None:  # noqa: ARG002
        """Show the picture."""
        if not picture.is_empty:
            self._show(picture)


def once_in_notebook(display: Display) -> ShownOnce:
    """Return a screen that displays one MIME bundle, its text first."""

    def show(picture: CellPicture) -> None:
        bundle = saved_bundle(picture)
        text_first = {mime: encodable(bundle[mime]) for mime in ("text/plain", "text/html")}
        display(text_first, raw=True, display_id=False)

    return ShownOnce(show)


def once_on_terminal(terminal: Terminal) -> ShownOnce:
    """Return a screen that writes the text of the picture."""

    def show(picture: CellPicture) -> None:
        terminal.write_lines(saved_bundle(picture)["text/plain"].splitlines())

    return ShownOnce(show)


def is_capturing(shell: Any) -> bool:
    """Return whether `%%capture` takes what this shell displays."""
    from IPython.core.displaypub import CapturingDisplayPublisher

    return isinstance(getattr(shell, "display_pub", None), CapturingDisplayPublisher)


def once_captured(display: Display) -> ShownOnce:
    """Return a screen for `%%capture`: lines go to the streams, everything else is displayed.

    So `cap.stdout` and `cap.stderr` have what ranks printed, `cap.outputs` has figures, values and
    what went wrong, and `cap.show()` shows each once.
    """
    rest = once_in_notebook(display)

    def show(picture: CellPicture) -> None:
        for kind in _STREAMS:
            printed = [_pick(block, {kind}, with_gap=kind == "stdout") for block in picture.blocks]
            lines = [line for block in printed for line in block_lines(block, picture)]
            write_text(getattr(sys, kind), "".join(f"{strip_ansi(line)}\n" for line in lines))
        others = [_pick(block, _OTHERS, with_gap=False) for block in picture.blocks]
        rest.finish(replace(picture, blocks=[block for block in others if block.rows]), 0.0)

    return ShownOnce(show)


def _pick(block: Block, kinds: Collection[str], *, with_gap: bool) -> Block:
    """Return the rows of these kinds."""
    before = [row for row in block.before if row.entry.kind in kinds]
    after = [row for row in block.after if row.entry.kind in kinds]
    return Block(before, block.left_out if with_gap else 0, after)
