"""How an examination of hosts is shown: one line while it lasts, then the table."""

import html
from collections.abc import Sequence
from typing import Any

from jupyter_dist.model.diagnosis import Diagnosis
from jupyter_dist.model.host_names import name_hosts
from jupyter_dist.views.cell_output import Display
from jupyter_dist.views.findings_table import findings_bundle, findings_text
from jupyter_dist.views.terminal import Terminal


class FindingsView:
    """Show that hosts are examined, and then what was found.

    `display` is IPython's in a notebook, or a Terminal (None: one on `sys.stdout`).
    """

    def __init__(self, hosts: Sequence[str], *, display: Display | Terminal | None = None) -> None:
        self._terminal: Terminal | None = None
        self._handle: Any = None
        text = f"examining {name_hosts(hosts)} …"
        if display is None or isinstance(display, Terminal):
            self._terminal = display or Terminal()
            self._terminal.show_status(text)
        else:
            self._handle = display(_line(text), raw=True, display_id=True)

    def finish(self, diagnosis: Diagnosis) -> None:
        """Replace the line by what was found."""
        if self._terminal is not None:
            self._terminal.show_status("")
            self._terminal.write_lines(findings_text(diagnosis).splitlines())
        else:
            self._handle.update(findings_bundle(diagnosis), raw=True)

    def fail(self, text: str) -> None:
        """Replace the line by why there is nothing to show."""
        if self._terminal is not None:
            self._terminal.show_status("")
        else:
            self._handle.update(_line(text), raw=True)


def _line(text: str) -> dict[str, str]:
    shown = html.escape(text, quote=False)
    return {"text/html": f'<div style="padding-left:8px">{shown}</div>', "text/plain": text}
