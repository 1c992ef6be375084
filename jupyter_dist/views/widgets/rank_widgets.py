"""The live widgets of one cluster in this kernel: what ranks say goes to pages, and back.

The line to the cluster is opened when the first widget is displayed. Its thread takes in what
ranks say; it speaks to pages as the last cell that showed something, so that programs which
execute notebooks take it for that cell's.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from functools import partial
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import comm
from IPython.display import display

from jupyter_dist.cluster.widget_line import WidgetLine
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import (
    WIDGET_VIEW,
    CommAnswered,
    CommArrived,
    Output,
    SendComm,
)
from jupyter_dist.views.widgets.mirror import Mirror
from jupyter_dist.views.widgets.widget_place import WidgetPlace, order_places

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster

MODEL_PATIENCE_S = 5.0
"""What a widget is made of comes about when it is displayed, on another line. It is not waited for
longer: it was told to another kernel, which had the widgets before."""
BUSY_AFTER_S = 0.5
"""An event that waits for so long is told of."""
_SLICE_S = 0.1

_of_clusters: "WeakKeyDictionary[Cluster, RankWidgets]" = WeakKeyDictionary()


def widgets_of(cluster: "Cluster") -> "RankWidgets":
    """Return the live widgets of this cluster; the first call begins to follow them."""
    widgets = _of_clusters.get(cluster)
    if widgets is None or widgets.have_ended:
        widgets = _of_clusters[cluster] = RankWidgets()
        widgets.follow(cluster)
    return widgets


def speak_for_this_cell(cluster: "Cluster") -> None:
    """Let what widgets of ranks say from now on belong to the cell that runs, if there are any."""
    widgets = _of_clusters.get(cluster)
    if widgets is not None:
        widgets.speak_for_this_cell()


class _Process:
    """What is known of one engine that has comms."""

    def __init__(self) -> None:
        self.models: dict[str, Mirror] = {}
        self.shown: set[str] = set()
        """Models of which all has come that was said before they were displayed."""
        self.numbers = count(1)
        self.sent: dict[int, tuple[str, float]] = {}
        """Events that are on their way or wait: the comm of each, and when it was sent."""
        self.places: list[WidgetPlace] = []


class RankWidgets:
    """Takes in what ranks say (a `WidgetWatcher`), and has a place for each widget displayed."""

    def __init__(self) -> None:
        self.have_ended = False
        self._door = threading.RLock()
        self._arrival = threading.Condition(self._door)
        self._processes: dict[str, _Process] = defaultdict(_Process)
        self._context = copy_context()
        self._line: WidgetLine

    def follow(self, cluster: "Cluster") -> None:
        """Begin to take in what ranks say."""
        self._line = cluster.follow_widgets(self)

    def speak_for_this_cell(self) -> None:
        """Let what ranks say from now on belong to the cell that runs on this thread."""
        with self._door:
            self._context = copy_context()

    def show(self, rank: int, output: Output) -> WidgetPlace | None:
        """Show a widget that a rank has displayed; return where, None if its model has not come."""
        self.speak_for_this_cell()
        view = output.data.get(WIDGET_VIEW)
        model_id = view.get("model_id") if isinstance(view, Mapping) else None
        process = self._await_model(str(model_id))
        if process is None:
            return None
        place = WidgetPlace(display, rank, output.data)
        with self._door:
            process.places.append(place)
        return place

    def order(self, places: Sequence[WidgetPlace], *, is_rank_after_rank: bool) -> None:
        """Have the widgets of a cell that has ended stand by rank; see `order_places`."""
        with self._door:
            order_places(places, is_rank_after_rank=is_rank_after_rank)

    def _await_model(self, model_id: str) -> _Process | None:
        deadline_s = monotonic() + MODEL_PATIENCE_S
        with self._door:
            while True:
                for process in self._processes.values():
                    if model_id in process.shown:
                        return process if model_id in process.models else None
                if self.have_ended or monotonic() >= deadline_s:
                    return None
                self._arrival.wait(_SLICE_S)  # so that Ctrl-C works

    # --- from ranks, on the thread of the line ---

    def on_comm(self, message: CommArrived, buffers: Sequence[Frame]) -> None:
        """Open, use or close the kernel's comm that stands for one of a rank."""
        self._context.run(partial(self._take, message, buffers))

    def _take(self, message: CommArrived, buffers: Sequence[Frame]) -> None:
        content = json.loads(message.content)
        with self._door:
            process = self._processes[message.engine]
            mirror = process.models.get(message.comm_id)
            if message.kind == "shown":
                process.shown.add(message.comm_id)
                self._arrival.notify_all()
            elif message.kind == "open" and mirror is None:
                self._open(process, message, content, buffers)
            elif mirror is not None and message.kind == "msg":
                mirror.take(content, buffers)
            elif mirror is not None and message.kind == "close":
                del process.models[message.comm_id]
                mirror.end()

    def _open(
        self,
        process: _Process,
        message: CommArrived,
        content: Mapping[str, Any],
        buffers: Sequence[Frame],
    ) -> None:
        if message.comm_id in comm.get_comm_manager().comms:
            return  # the kernel's own, or another rank's: no rank may speak for it
        mirror = Mirror(message.comm_id, content, buffers)
        mirror.connect(partial(self._send, message.engine, message.comm_id))
        process.models[message.comm_id] = mirror

    def on_answer(self, message: CommAnswered) -> None:
        """Take in that a rank has done with events, and show what callbacks have said."""
        with self._door:
            process = self._processes[message.engine]
            for number in [each for each in process.sent if each <= message.number]:
                del process.sent[number]
            if message.outputs and (place := self._place_of(process, message.comm_id)):
                place.say(message.outputs)

    def on_tick(self) -> None:
        """Say of which widgets events wait, because their rank does something else."""
        if not any(process.sent or process.places for process in self._processes.values()):
            return
        late_s = monotonic() - BUSY_AFTER_S
        with self._door:
            for process in self._processes.values():
                is_late = any(since_s < late_s for _, since_s in process.sent.values())
                waiting: dict[int, int] = defaultdict(int)
                for comm_id, _ in process.sent.values() if is_late else ():
                    if (place := self._place_of(process, comm_id)) is not None:
                        waiting[id(place)] += 1
                for place in process.places:
                    place.say_waiting(waiting[id(place)])

    def on_ended(self, engine: str, reason: str) -> None:
        """Replace the widgets of a process (empty: of all) by what they were, and why."""
        with self._door:
            self.have_ended |= not engine
            for name in [engine] if engine else list(self._processes):
                process = self._processes.pop(name, _Process())
                for place in process.places:
                    place.end(reason)
                for mirror in process.models.values():
                    mirror.end()
            self._arrival.notify_all()

    def _place_of(self, process: _Process, comm_id: str) -> WidgetPlace | None:
        """Return where a widget stands that is displayed, or part of one that is."""
        for place in reversed(process.places):
            seen: set[str] = set()
            found = {place.model_id}
            while found - seen:
                seen |= found
                models = [process.models[each] for each in found if each in process.models]
                found = {child for model in models for child in model.children}
            if comm_id in seen:
                return place
        return process.places[-1] if process.places else None

    # --- from a page, on the kernel's thread ---

    def _send(
        self,
        engine: str,
        comm_id: str,
        kind: str,
        content: Mapping[str, Any],
        buffers: Sequence[Frame],
    ) -> None:
        with self._door:
            process = self._processes[engine]
            number = next(process.numbers)
            process.sent[number] = (comm_id, monotonic())
            if kind == "close":
                process.models.pop(comm_id, None)
            written = json.dumps(content).encode("utf-8", "backslashreplace")
            message = SendComm("", engine, comm_id, number, kind, written)
            self._line.send(message, [bytes(buffer) for buffer in buffers])
