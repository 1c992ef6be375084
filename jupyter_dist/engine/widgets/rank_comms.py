"""The comms of a rank: what ipywidgets opens is carried to the notebook that runs the cells.

`comm.create_comm` is replaced when the package `comm` is imported, which ipywidgets does; a rank
that uses no widgets does nothing of this.
"""

import base64
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from numbers import Integral, Real
from types import ModuleType
from typing import TYPE_CHECKING, Any

from jupyter_dist.errors import UsageError
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.protocol.codec import Frame
from jupyter_dist.protocol.messages import WIDGET_VIEW, CommSent, Message, Output
from jupyter_dist.text.sizes import tell_size

if TYPE_CHECKING:
    from jupyter_dist.engine.widgets.rank_comm import RankComm

MOST_BYTES = 64 << 20
"""Of one message to the page, with its buffers."""


class RankComms:
    """Makes and finds comms, and sends what they say."""

    def __init__(
        self,
        rank: Callable[[], int],
        post: Callable[[Message, Sequence[Frame]], None],
        show: Callable[[Output], None],
    ) -> None:
        self._rank = rank
        self._post, self._show = post, show
        self.are_shown = False
        """Who has sent the current cell, or else the last one, shows widgets live."""
        self._manager: Any = None

    def watch(self, hooks: ImportHooks) -> None:
        """Take the place of `comm.create_comm` as soon as the package is imported."""
        hooks.after("comm", self._install)

    def _install(self, package: ModuleType) -> None:
        from jupyter_dist.engine.widgets.rank_comm import RankComm

        def create_comm(*arguments: Any, **options: Any) -> "RankComm":
            return RankComm(self.say, *arguments, **options)

        self._manager = package.get_comm_manager()
        package.create_comm = create_comm  # type: ignore[attr-defined]

    def show(self, output: Output) -> None:
        """Show an output; of a widget the page is told first that it is displayed next.

        Outputs go another way than comms, and a view of a model as it was some messages ago may
        fail: the page makes it once all has come that was said until now.
        """
        view = output.data.get(WIDGET_VIEW)
        if isinstance(view, dict):
            self.say(str(view.get("model_id")), "shown", {}, ())
        self._show(output)

    def find(self, comm_id: str) -> Any:
        """Return the comm with this id, or None."""
        return None if self._manager is None else self._manager.comms.get(comm_id)

    def say(self, comm_id: str, kind: str, content: dict[str, Any], buffers: Sequence[Any]) -> None:
        """Send a message to the page soon; from any thread. Nothing is sent that no page shows.

        Raises UsageError for one that is too large, and TypeError for what is not JSON.
        """
        if not self.are_shown:
            return
        written = json.dumps(content, default=_as_json).encode("utf-8", "backslashreplace")
        # Copied: what comes next in the cell may change an array before it is on its way.
        frames = [bytes(memoryview(buffer).cast("B")) for buffer in buffers]
        size = len(written) + sum(map(len, frames))
        if size > MOST_BYTES:
            raise UsageError(
                f"a widget would send {tell_size(size)} to the notebook, and at most "
                f"{tell_size(MOST_BYTES)} go at once. Show less of it, as every tenth point."
            )
        self._post(CommSent(self._rank(), comm_id, kind, written), frames)


def _as_json(value: object) -> object:
    """Return what stands for a value that JSON does not know, as a kernel's messages have it."""
    match value:
        case Integral():
            return int(value)
        case Real():
            return float(value)
        case datetime():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case set() | frozenset() | range():
            return list(value)
    raise TypeError(f"a widget cannot send a {type(value).__name__} to the notebook: {value!r:.80}")
