"""Where a view stands: one output of a notebook that is replaced again and again, or a terminal."""

import functools
import os
from typing import Any, Protocol

from jupyter_dist.views.lines import encodable
from jupyter_dist.views.terminal import Terminal

_CONSOLES = ("jupyter-console", "jupyter_console")


def can_replace(shell: Any) -> bool:
    """Tell whether who reads this shell's outputs sees what they are replaced by."""
    return getattr(shell, "kernel", None) is not None and not _is_console(os.getppid())


@functools.cache
def _is_console(parent_pid: int) -> bool:
    """Tell whether `jupyter console` has started this kernel: it shows an output once."""
    import psutil

    try:
        words = psutil.Process(parent_pid).cmdline()
    except psutil.Error:
        return False
    return any(os.path.basename(word) in _CONSOLES for word in words[:4])


class Display(Protocol):
    """IPython's `display`, as far as it is needed here."""

    def __call__(self, bundle: dict[str, str], /, *, raw: bool, display_id: bool) -> Any:
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

    def show(self, bundle: dict[str, str]) -> None:
        """Put a MIME bundle there in a notebook, instead of what stood there."""
        bundle = {mime: encodable(text) for mime, text in bundle.items()}
        if self._handle is not None:
            self._handle.update(bundle, raw=True)
        elif self._display is not None:
            self._handle = self._display(bundle, raw=True, display_id=True)
