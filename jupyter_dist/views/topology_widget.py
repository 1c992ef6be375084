"""The live picture of a cluster in a notebook, and its end as a static snapshot.

State flows one way, as one trait; commands come back as custom messages, because a trait change
from JavaScript can be lost for good on ipykernel 7.4. Each request is answered by its id.
"""

import atexit
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import anywidget
import msgspec
import traitlets
from IPython.core.getipython import get_ipython
from IPython.display import DisplayHandle, display

from jupyter_dist.errors import DistError
from jupyter_dist.model.rank import name_ranks
from jupyter_dist.model.topology import Topology
from jupyter_dist.views.modules import joined_modules, joined_styles
from jupyter_dist.views.topology_snapshot import topology_html, topology_text

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_INTERVAL_S = 0.25
_ENDED = ("stopped", "gone")


def show_topology(cluster: "Cluster") -> None:
    """Display the live topology where a notebook front end can show it; elsewhere do nothing.

    In a terminal, `topology_text(cluster.topology())` is what there is to print.
    """
    shell = get_ipython()
    if shell is not None and hasattr(shell, "kernel"):
        display(TopologyWidget(cluster))  # type: ignore[no-untyped-call]


class TopologyWidget(anywidget.AnyWidget):
    """Show hosts, ranks, GPUs and links of a cluster live, with buttons to interrupt and stop it.

    Wherever it is displayed as an output of its own, that output becomes a static snapshot when
    the cluster ends, when the kernel ends, or on `freeze()`; so a saved notebook stays readable.
    """

    _esm = joined_modules("widget.js")
    _css = joined_styles()
    state = traitlets.Dict().tag(sync=True)

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._latest = cluster.topology()
        self._outputs: list[DisplayHandle] = []
        self._answered: deque[str] = deque(maxlen=64)
        self._lock = threading.RLock()
        self._is_frozen = False
        super().__init__(state=msgspec.to_builtins(self._latest))
        _let_buttons_work_during_cells(self.comm)
        self.on_msg(self._on_message)
        atexit.register(self.freeze)
        self._stop_watching = cluster.watch_topology(self._on_topology, _INTERVAL_S)

    def freeze(self) -> None:
        """Stop following the cluster and replace each display by a snapshot; twice is fine."""
        self._stop_watching()
        self._become_static()

    def _ipython_display_(self) -> None:
        with self._lock:
            if self._is_frozen:
                display(self._snapshot(), raw=True)  # type: ignore[no-untyped-call]
                return
            view = {"version_major": 2, "version_minor": 0, "model_id": self.model_id}
            bundle = {_WIDGET_VIEW: view, "text/plain": topology_text(self._latest)}
            output = display(bundle, raw=True, display_id=True)  # type: ignore[no-untyped-call]
            if output is not None:
                self._outputs.append(output)

    def _on_topology(self, topology: Topology) -> None:
        """Take a new state in; runs on the cluster's watching thread, also while a cell runs."""
        with self._lock:
            if self._is_frozen:
                return
            self._latest = topology
            self.state = msgspec.to_builtins(topology)
        if topology.state in _ENDED:
            self._become_static()

    def _become_static(self) -> None:
        with self._lock:
            if self._is_frozen:
                return
            self._is_frozen = True
            outputs, self._outputs = self._outputs, []
        atexit.unregister(self.freeze)
        for output in outputs:
            output.update(self._snapshot(), raw=True)  # type: ignore[no-untyped-call]
        # Inside somebody's own layout of widgets there is no output to replace: that view stays
        # and shows the end.
        if outputs:
            self.close()

    def _snapshot(self) -> dict[str, str]:
        taken_at = time.strftime("%Y-%m-%d %H:%M:%S")
        return {
            "text/html": topology_html(self._latest, taken_at),
            "text/plain": topology_text(self._latest),
        }

    def _on_message(self, _widget: object, content: dict[str, Any], _buffers: object) -> None:
        """Start what a view asked for, once per request id, and free the shell's thread at once."""
        request_id = content.get("id")
        if not isinstance(request_id, str) or request_id in self._answered:
            return
        self._answered.append(request_id)
        threading.Thread(
            target=self._obey,
            args=(str(content.get("kind")), request_id),
            name="jupyter-dist-topology-request",
            daemon=True,
        ).start()

    def _obey(self, kind: str, request_id: str) -> None:
        try:
            match kind:
                case "interrupt":
                    ranks = self._cluster.interrupt()
                    signalled = f"{name_ranks(ranks)} signalled" if ranks else "nothing was running"
                    self._answer(request_id, True, signalled)
                case "stop":
                    self._answer(request_id, True, "the cluster is stopping…")
                    self._cluster.stop()
                    self._answer(request_id, True, "the cluster has stopped")
                case _:
                    self._answer(request_id, False, f"this kernel knows no command {kind!r}")
        except DistError as problem:
            self._answer(request_id, False, str(problem))

    def _answer(self, request_id: str, is_ok: bool, text: str) -> None:
        # After the end the widget is closed and there is nobody left to tell.
        if self.comm is not None:
            self.send({"kind": "reply", "id": request_id, "ok": is_ok, "text": text})


def _let_buttons_work_during_cells(comm: Any) -> None:
    """Undo one choice of ipykernel 7.4, without which a click waits for the running cell to end.

    It routes messages of a comm to the subshell that published last; ours is published to by a
    plain thread, which means the main shell, which is the busy one. Where a front end names a
    subshell of its own, that one is right.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, default: default  # noqa: SLF001
