"""How an examination of hosts is shown: one line while it lasts, then the table."""

import html
from collections.abc import Sequence

from jupyter_dist.model.diagnosis import Diagnosis
from jupyter_dist.model.host_names import name_hosts
from jupyter_dist.views.findings_table import findings_bundle, findings_text
from jupyter_dist.views.place import Display, Place
from jupyter_dist.views.terminal import Terminal


class FindingsView:
    """Show that hosts are examined, and then what was found.

    `display` is IPython's in a notebook, or a Terminal (None: one on `sys.stdout`).
    """

    def __init__(self, hosts: Sequence[str], *, display: Display | Terminal | None = None) -> None:
        self._place = Place(display)
        text = f"examining {name_hosts(hosts)} …"
        if self._place.terminal is not None:
            self._place.terminal.show_status(text)
        else:
            self._place.show(_line(text))

    def finish(self, diagnosis: Diagnosis) -> None:
        """Replace the line by what was found."""
        if self._place.terminal is not None:
            self._place.terminal.show_status("")
            self._place.terminal.write_lines(findings_text(diagnosis).splitlines())
        else:
            self._place.show(findings_bundle(diagnosis))

    def fail(self, text: str) -> None:
        """Replace the line by why there is nothing to show."""
        if self._place.terminal is not None:
            self._place.terminal.show_status("")
        else:
            self._place.show(_line(text))


def _line(text: str) -> dict[str, str]:
    shown = html.escape(text, quote=False)
    return {"text/html": f'<div style="padding-left:8px">{shown}</div>', "text/plain": text}
