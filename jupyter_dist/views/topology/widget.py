"""The live picture of a cluster in a notebook, and its end as a static snapshot.

All goes by custom messages: the script of the view with the whole state, then what changes, and
commands back; a trait change from JavaScript can be lost for good on ipykernel 7.4. Each request is
answered by its id. Traits are what a notebook keeps that is saved with its widgets, so they hold
no more than a picture that stands still, and the small script that shows it.
"""

import atexit
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import anywidget
import msgspec
import traitlets
from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display

from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.protocol.messages import WIDGET_VIEW
from jupyter_dist.protocol.plain_values import to_text
from jupyter_dist.views.topology.changes import Teller, Told
from jupyter_dist.views.topology.kernel_status import stay_busy
from jupyter_dist.views.topology.script_modules import joined_modules, joined_styles
from jupyter_dist.views.topology.snapshot import topology_html, topology_text, when_taken
from jupyter_dist.views.topology.unmeasured import unmeasured
from jupyter_dist.views.topology.view_commands import Reply, ViewCommands
from jupyter_dist.views.widgets.during_cells import let_messages_through

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster

_INTERVAL_S = 0.25
_PACE_S = 0.2
"""Topologies come at the interval above, give or take a little: none of those is left out."""
_SHARE = 0.05
"""The part of its time that the thread spends on finding out what has changed, at most."""
_WHOLE_EVERY_S = 10.0
"""A page that has missed something, and cannot ask while a cell runs, gets the whole this often,
and the picture that stands still is made again."""
_WHOLE_BYTES_PER_S = 100_000
"""And what is large less often."""
_FIRST_NUMBERS_S = 2.0
"""So long hosts take to tell what their ranks use."""
_ENDED = ("stopped", "gone")
_shown: "dict[Cluster, TopologyWidget]" = {}
"""The widgets that `show_topology` made and that are not frozen."""


def show_topology(cluster: "Cluster", *, has_measures: bool = True) -> None:
    """Display the live topology where a notebook front end can show it; elsewhere do nothing.

    What a notebook saves of it has no figures, unless it `has_measures`. In a terminal,
    `topology_text(cluster.topology())` is what there is to print. A cluster that is shown again
    gets one more view of the same widget: each widget has its own stream of pictures.
    """
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return
    widget = _shown.get(cluster)
    if widget is None:
        widget = TopologyWidget(cluster)
        widget.keep_for_showing_again()
    else:
        widget.refresh()
    widget.show(has_measures=has_measures)


class TopologyWidget(anywidget.AnyWidget):
    """Show hosts, ranks, GPUs and links of a cluster live, and carry out what its buttons ask.

    Wherever it is displayed as an output of its own, that output becomes a static snapshot when
    the cluster ends, when the kernel ends, or on `freeze()`; so a saved notebook stays readable.
    It shows how the ranks were before the cluster was told to end.
    """

    _esm = joined_modules("door.js")
    snapshot = traitlets.Unicode().tag(sync=True)
    """HTML that stands still, with its date, for who has no script of the view."""
    script_follows = traitlets.Bool(True).tag(sync=True)
    """It is sent without being asked for: a page that comes now is one that has seen the begin."""
    is_observer = traitlets.Bool(False).tag(sync=True)
    """What would change the cluster is not offered."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._latest, self._taken_at = cluster.topology(), _now()
        """How the cluster was when it was not about to end, and when that was."""
        self._end = ""
        """How it has ended since; empty: it has not."""
        self._across = ""
        """The axis by which pages arrange ranks; empty: they are by hosts."""
        self._outputs: list[tuple[DisplayHandle, bool]] = []
        """Where it is displayed, and whether with measures."""
        self._commands = ViewCommands(cluster)
        self._teller = Teller()
        self._next_change_s = 0.0
        self._next_whole_s = time.monotonic() + _FIRST_NUMBERS_S
        self._lock = threading.RLock()
        self._is_frozen = False
        self._teller.tell(self._latest, time.monotonic())
        super().__init__(snapshot=self._snapshot_html(), is_observer=cluster.is_observer)
        let_messages_through(self.comm)
        self.on_msg(self._on_message)
        # At once: who asks for it waits until the cell that runs now has ended.
        self._send_script()
        self.script_follows = False
        atexit.register(self.freeze)
        self._stop_watching = cluster.watch_topology(self._on_topology, _INTERVAL_S)

    def freeze(self) -> None:
        """Stop following the cluster and replace each display by a snapshot; twice is fine."""
        self._stop_watching()
        self._become_static()

    def refresh(self) -> None:
        """Take in how the cluster is now: what its watch has told last may be a moment old."""
        self._on_topology(self._cluster.topology())

    def keep_for_showing_again(self) -> None:
        """Let `show_topology` display this one when it is asked again, until it is frozen."""
        with self._lock:
            if not self._is_frozen:
                _shown[self._cluster] = self

    def _ipython_display_(self) -> None:
        self.show()

    def show(self, *, has_measures: bool = True) -> None:
        """Display it; what a notebook saves of it has no figures, unless it `has_measures`."""
        with self._lock:
            if self._is_frozen:
                display(self._snapshot(has_measures=has_measures), raw=True)  # type: ignore[no-untyped-call]
                return
            view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
            # A page that cannot draw the widget shows what is beside it.
            bundle = {WIDGET_VIEW: view, **self._snapshot(has_measures=has_measures)}
            output = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
            if output is not None:
                self._outputs.append((output, has_measures))

    def _on_topology(self, topology: Topology) -> None:
        """Take a new state in; runs on the cluster's watching thread, also while a cell runs."""
        has_ended = topology.state in _ENDED
        with self._lock:
            if self._is_frozen:
                return
            if has_ended:
                self._end = topology.state
            elif topology.state != "stopping":
                self._latest, self._taken_at = topology, _now()
            # What is left out here is no loss: the next change is one from what was told last.
            if has_ended or time.monotonic() >= self._next_change_s:
                self._tell(topology)
        if has_ended:
            self._become_static()

    def _tell(self, topology: Topology) -> None:
        now_s = time.monotonic()
        told = self._teller.tell(topology, now_s)
        if now_s >= self._next_whole_s:
            told = self._teller.whole()
            self.snapshot = self._snapshot_html()
            pause_s = (len(to_text(told)) + len(self.snapshot)) / _WHOLE_BYTES_PER_S
            self._next_whole_s = now_s + max(_WHOLE_EVERY_S, pause_s)
        self._tell_pages("change", told)
        took_s = time.monotonic() - now_s
        self._next_change_s = now_s + max(_PACE_S, took_s / _SHARE)

    def _tell_pages(self, kind: str, told: Told, **more: str) -> None:
        self.send({"kind": kind, "told": msgspec.to_builtins(told), **more})

    def _send_script(self) -> None:
        """Send what shows the live view, and the whole state as it was told last."""
        with self._lock:  # no change comes between what is read and what is sent
            whole = self._teller.whole()
            self._tell_pages("script", whole, script=joined_modules(), style=joined_styles())

    def _become_static(self) -> None:
        with self._lock:
            if self._is_frozen:
                return
            self._is_frozen = True
            outputs, self._outputs = self._outputs, []
            if _shown.get(self._cluster) is self:
                del _shown[self._cluster]
        atexit.unregister(self.freeze)
        self.snapshot = self._snapshot_html()
        for output, has_measures in outputs:
            output.update(self._snapshot(has_measures=has_measures), raw=True)  # type: ignore[no-untyped-call]
        # Inside someone's own layout of widgets there is no output to replace: that view stays
        # and shows the end.
        if outputs:
            self.close()

    def _snapshot(self, *, has_measures: bool) -> dict[str, str]:
        """Return what stands in an output."""
        latest = self._latest if has_measures else unmeasured(self._latest)
        # A picture whose kernel is gone while the cluster goes on says when it is of.
        has_date = has_measures or (self._is_frozen and not self._end)
        when = when_taken(self._taken_at if has_date else "", self._end)
        return {
            "text/html": topology_html(latest, when, self._across),
            "text/plain": f"{topology_text(latest, self._across)}\n\n{when}",
        }

    def _snapshot_html(self) -> str:
        """Return what the model keeps, which is no output: it says when that was."""
        when = when_taken(self._taken_at, self._end)
        return topology_html(self._latest, when, self._across)

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        """Start what a view asked for, and free the shell's thread at once."""
        if not isinstance(content, Mapping):
            return
        stay_busy(getattr(get_ipython(), "kernel", None))
        match content.get("kind"):
            case "whole":
                with self._lock:
                    self._tell_pages("change", self._teller.whole())
            case "script":
                self._send_script()
            case "arrange":
                self._arrange(content.get("across"))
            case _:
                self._commands.take(content, self._answer)

    def _arrange(self, across: object) -> None:
        """Arrange what stands still as a page does what is live."""
        with self._lock:
            self._across = across if isinstance(across, str) else ""
            if not self._is_frozen:
                self.snapshot = self._snapshot_html()

    def _answer(self, reply: Reply) -> None:
        # After the end the widget is closed and there is nobody left to tell.
        if self.comm is not None:
            self.send(reply)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
