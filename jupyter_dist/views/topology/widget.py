"""The live picture of a cluster in a notebook, and its end as a static snapshot.

State flows one way, as one trait; commands come back as custom messages, because a trait change
from JavaScript can be lost for good on ipykernel 7.4. Each request is answered by its id.
"""

import atexit
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anywidget
import msgspec
import traitlets
from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display

from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.views.topology.script_modules import joined_modules, joined_styles
from jupyter_dist.views.topology.snapshot import topology_html, topology_text
from jupyter_dist.views.topology.view_commands import Reply, ViewCommands

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_INTERVAL_S = 0.25
_BYTES_PER_SECOND = 1_000_000
"""A picture that is larger than a quarter of this comes less often."""
_ENDED = ("stopped", "gone")
_shown: "dict[Cluster, TopologyWidget]" = {}
"""The widgets that `show_topology` made and that are not frozen."""


def show_topology(cluster: "Cluster") -> None:
    """Display the live topology where a notebook front end can show it; elsewhere do nothing.

    In a terminal, `topology_text(cluster.topology())` is what there is to print. A cluster that is
    shown again gets one more view of the same widget: each widget has its own stream of pictures.
    """
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return
    widget = _shown.get(cluster)
    if widget is None:
        widget = TopologyWidget(cluster)
        widget.keep_for_showing_again()
    display(widget)  # type: ignore[no-untyped-call]


class TopologyWidget(anywidget.AnyWidget):
    """Show hosts, ranks, GPUs and links of a cluster live, and carry out what its buttons ask.

    Wherever it is displayed as an output of its own, that output becomes a static snapshot when
    the cluster ends, when the kernel ends, or on `freeze()`; so a saved notebook stays readable.
    """

    _esm = joined_modules("widget.js")
    _css = joined_styles()
    state = traitlets.Dict().tag(sync=True)
    is_observer = traitlets.Bool(False).tag(sync=True)
    """What would change the cluster is not offered."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._latest = cluster.topology()
        self._outputs: list[DisplayHandle] = []
        self._commands = ViewCommands(cluster)
        self._next_state_s = 0.0
        self._lock = threading.RLock()
        self._is_frozen = False
        state = msgspec.to_builtins(self._latest)
        super().__init__(state=state, is_observer=cluster.is_observer)
        _let_buttons_work_during_cells(self.comm)
        self.on_msg(self._on_message)
        atexit.register(self.freeze)
        self._stop_watching = cluster.watch_topology(self._on_topology, _INTERVAL_S)

    def freeze(self) -> None:
        """Stop following the cluster and replace each display by a snapshot; twice is fine."""
        self._stop_watching()
        self._become_static()

    def keep_for_showing_again(self) -> None:
        """Let `show_topology` display this one when it is asked again, until it is frozen."""
        with self._lock:
            if not self._is_frozen:
                _shown[self._cluster] = self

    def _ipython_display_(self) -> None:
        with self._lock:
            if self._is_frozen:
                display(self._snapshot(), raw=True)  # type: ignore[no-untyped-call]
                return
            view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
            # A page that cannot draw the widget shows what is beside it.
            bundle = {_WIDGET_VIEW: view, **self._snapshot()}
            output = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
            if output is not None:
                self._outputs.append(output)

    def _on_topology(self, topology: Topology) -> None:
        """Take a new state in; runs on the cluster's watching thread, also while a cell runs."""
        has_ended = topology.state in _ENDED
        with self._lock:
            if self._is_frozen:
                return
            self._latest = topology
            now_s = time.monotonic()
            # What is left out here is no loss: the next state is whole again.
            if has_ended or now_s >= self._next_state_s:
                self._next_state_s = now_s + _pause_s(topology)
                self.state = msgspec.to_builtins(topology)
        if has_ended:
            self._become_static()

    def _become_static(self) -> None:
        with self._lock:
            if self._is_frozen:
                return
            self._is_frozen = True
            outputs, self._outputs = self._outputs, []
            if _shown.get(self._cluster) is self:
                del _shown[self._cluster]
        atexit.unregister(self.freeze)
        snapshot = self._snapshot() if outputs else {}
        for output in outputs:
            output.update(snapshot, raw=True)  # type: ignore[no-untyped-call]
        # Inside someone's own layout of widgets there is no output to replace: that view stays
        # and shows the end.
        if outputs:
            self.close()

    def _snapshot(self) -> dict[str, str]:
        taken_at = time.strftime("%Y-%m-%d %H:%M:%S")
        return {
            "text/html": topology_html(self._latest, taken_at),
            "text/plain": topology_text(self._latest),
        }

    def _on_message(self, _widget: object, content: object, _buffers: object) -> None:
        """Start what a view asked for, and free the shell's thread at once."""
        if isinstance(content, Mapping):
            self._commands.take(content, self._answer)

    def _answer(self, reply: Reply) -> None:
        # After the end the widget is closed and there is nobody left to tell.
        if self.comm is not None:
            self.send(reply)


def _pause_s(topology: Topology) -> float:
    """Return the time until the next picture, so that large ones leave the line to other things.

    A little less than the interval at which they come, or every second one would be left out.
    """
    size_bytes = len(msgspec.json.encode(topology))
    return max(0.8 * _INTERVAL_S, size_bytes / _BYTES_PER_SECOND)


def _let_buttons_work_during_cells(comm: Any) -> None:
    """Undo one choice of ipykernel 7.4, without which a click waits for the running cell to end.

    It routes messages of a comm to the subshell that published last; ours is published to by a
    plain thread, which means the main shell, which is the busy one. Where a front end names a
    subshell of its own, that one is right.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, default: default  # noqa: SLF001
