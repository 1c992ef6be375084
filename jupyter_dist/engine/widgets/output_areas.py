"""Output areas of ipywidgets on a rank: `with out:` puts into them what is said meanwhile.

A page fills an area itself, by the message that a kernel handles; ranks handle none, so here the
rank fills it. Where no page shows widgets, what is said there is the rank's own output.
"""

from collections.abc import Sequence
from time import monotonic
from types import ModuleType
from typing import Any

from jupyter_dist.engine.output.outputs import Outputs
from jupyter_dist.engine.shell.rank_shell import RankDisplayPublisher, RankShell
from jupyter_dist.engine.widgets.rank_comms import RankComms
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.protocol.messages import Output

KEPT_CHARACTERS = 1 << 20
"""Of one stream in an area: the tail."""
_BYTES_PER_S = 2_000_000
"""An area is sent as a whole, so a large one is sent less often while it is written to."""
_INTERVAL_S = 0.1


class OutputAreas:
    """Has `with out:` of ipywidgets do on this rank what it does in a notebook."""

    def __init__(self, comms: RankComms, outputs: Outputs, shell: RankShell) -> None:
        self._comms, self._outputs, self._shell = comms, outputs, shell
        self._publisher: RankDisplayPublisher = shell.display_pub

    def watch(self, hooks: ImportHooks) -> None:
        """Do so as soon as ipywidgets is imported."""
        hooks.after("ipywidgets.widgets.widget_output", self._teach)

    def _teach(self, module: ModuleType) -> None:
        kind: Any = module.Output

        def enter(widget: Any) -> None:
            self._publisher.areas_entered += 1
            is_live = self._comms.are_shown and widget.comm is not None
            self._outputs.enter_area(_Area(widget, self._comms) if is_live else None)

        def leave(widget: Any, error: Any, value: Any, trace: Any) -> bool:
            del widget
            try:
                if error is not None:  # shown there, and over, as in a notebook
                    self._shell.showtraceback((error, value, trace), tb_offset=0)
            finally:
                area = self._outputs.leave_area()
                self._publisher.areas_entered -= 1
            if isinstance(area, _Area):
                area.finish()
            return error is not None

        kind.__enter__, kind.__exit__ = enter, leave


class _Area:
    """What one output widget holds, while it is written to."""

    def __init__(self, widget: Any, comms: RankComms) -> None:
        self._widget, self._comms = widget, comms
        self._items: list[dict[str, Any]] = [dict(item) for item in widget.outputs]
        self._size = 0
        self._next_s = 0.0
        self._by_display_id: dict[str, dict[str, Any]] = {}

    def take(self, outputs: Sequence[Output]) -> None:
        """Take in what was said, and show it now and then; on any thread."""
        for output in outputs:
            self._take_one(output)
        now_s = monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + max(_INTERVAL_S, self._size / _BYTES_PER_S)
            self._show()

    def finish(self) -> None:
        """Have the widget hold what was said; on the thread that has written."""
        held, self._widget.outputs = self._widget.outputs, tuple(self._items)
        if held == self._widget.outputs:  # no change of it, but the page may show another one
            self._show()

    def _show(self) -> None:
        update = {"method": "update", "state": {"outputs": self._items}, "buffer_paths": []}
        self._comms.say(self._widget.comm.comm_id, "msg", {"data": update, "metadata": {}}, ())

    def _take_one(self, output: Output) -> None:
        self._size += len(output.text) + sum(map(len, map(str, output.data.values())))
        match output.kind:
            case "stdout" | "stderr":
                self._append_text(output.kind, output.text)
            case "clear_output":
                self._items, self._size = [], 0
            case "update_display" if output.display_id in self._by_display_id:
                shown = self._by_display_id[output.display_id]
                shown |= {"data": output.data, "metadata": output.metadata}
            case "display" | "value":
                shown = {
                    "output_type": "display_data",
                    "data": output.data,
                    "metadata": output.metadata,
                }
                self._items.append(shown)
                if output.display_id:
                    self._by_display_id[output.display_id] = shown

    def _append_text(self, name: str, text: str) -> None:
        last = self._items[-1] if self._items else {}
        if last.get("output_type") == "stream" and last.get("name") == name:
            last["text"] = (last["text"] + text)[-KEPT_CHARACTERS:]
        else:
            self._items.append({"output_type": "stream", "name": name, "text": text})
