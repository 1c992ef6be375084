"""Where a view stands: one output of a notebook that is replaced again and again, or a terminal."""

import functools
import html
import os
from typing import Any, Protocol

from jupyter_dist.views.cell.terminal import Terminal
from jupyter_dist.views.outputs.lines import encodable

_CONSOLES = ("jupyter-console", "jupyter_console")


def can_replace(shell: Any) -> bool:
    """Return whether who reads this shell's outputs sees what they are replaced by."""
    return getattr(shell, "kernel", None) is not None and not _is_console(os.getppid())


@functools.cache
def _is_console(parent_pid: int) -> bool:
    """Return whether `jupyter console` has started this kernel: it shows an output once."""
    import psutil

    try:
        words = psutil.Process(parent_pid).cmdline()
    except psutil.Error:
        return False
    return any(os.path.basename(word) in _CONSOLES for word in words[:4])


def line_bundle(text: str, more: str = "", style: str = "") -> dict[str, str]:
    """Return the MIME bundle of a text, with markup below it, at the edge of a notebook's own."""
    words = html.escape(text, quote=False)
    markup = f'<div style="margin-left:8px;{style}">{words}{more}</div>'
    return {"text/html": markup, "text/plain": text}


class Display(Protocol):
    """IPython's `display`, as far as it is needed here."""

    def __call__(self, bundle: dict[str, Any], /, *, raw: bool, display_id: bool) -> Any:
        """Show a MIME bundle; return a handle with `update(bundle, raw=True)`."""


class Place:
    """One place on the screen.

    `display` is IPython's in a notebook, or a Terminal (None: one on `sys.stdout`); `terminal`
    is None in a notebook.
    """

    def __init__(self, display: Display | Terminal | None) -> None:
        self.terminal: Terminal | None = None
        self._display: Display | None = None
        if display is None or isinstance(display, Terminal):
            self.terminal = display or Terminal()
        else:
            self._display = display
        self._handle: Any = None

    @property
    def is_taken(self) -> bool:
        """Something stands there in a notebook."""
        return self._handle is not None

    @property
    def is_log(self) -> bool:
        """What is written stays: nothing can be replaced there."""
        return self.terminal is not None and not self.terminal.is_tty

    def show_now(self, text: str, bundle: dict[str, str] | None = None) -> None:
        """Show a text that will be replaced, in a notebook this MIME bundle for it."""
        if self.terminal is not None:
            self.terminal.show_status(text)
        else:
            self.show(bundle or line_bundle(text))

    def leave(self, text: str, bundle: dict[str, str] | None = None) -> None:
        """Show a text for good, in a notebook this MIME bundle for it."""
        if self.terminal is not None:
            self.terminal.show_status("")
            self.terminal.write_lines(text.splitlines())
        else:
            self.show(bundle or line_bundle(text))

    def show(self, bundle: dict[str, str]) -> None:
        """Put a MIME bundle there in a notebook, instead of what stood there."""
        bundle = {mime: encodable(text) for mime, text in bundle.items()}
        if self._handle is not None:
            self._handle.update(bundle, raw=True)
        elif self._display is not None:
            self._handle = self._display(bundle, raw=True, display_id=True)
