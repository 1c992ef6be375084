"""How an examination of hosts is shown: one line while it lasts, then the table."""

from collections.abc import Sequence

from jupyter_dist.cluster.doctor.diagnosis import Diagnosis
from jupyter_dist.model.hosts.host_names import name_hosts
from jupyter_dist.views.cell.display_place import Display, Place, line_bundle
from jupyter_dist.views.cell.terminal import Terminal
from jupyter_dist.views.tables.findings_table import findings_html, findings_text


class FindingsView:
    """Show that hosts are examined, and then what was found.

    `display` is IPython's in a notebook, or a Terminal (None: one on `sys.stdout`).
    """

    def __init__(self, hosts: Sequence[str], *, display: Display | Terminal | None = None) -> None:
        self._place = Place(display)
        self._place.show_now(f"examining {name_hosts(hosts)} …")

    def finish(self, diagnosis: Diagnosis) -> None:
        """Replace the line by what was found."""
        text = findings_text(diagnosis)
        self._place.leave(text, {"text/html": findings_html(diagnosis), "text/plain": text})

    def fail(self, text: str) -> None:
        """Replace the line by why there is nothing to show."""
        self._place.show_now("", line_bundle(text))
