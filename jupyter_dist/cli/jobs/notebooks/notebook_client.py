"""nbclient's client, which also hears what cells say that have begun something beside others."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty
from typing import TYPE_CHECKING, Any

import msgspec
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete

from jupyter_dist.cluster.jobs.job_events import EVENT, TARGET, JobEvent, SpmdBegan, read_event

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from jupyter_dist.cli.jobs.notebooks.notebook_shows import NotebookShow

_LATE = ("stream", "display_data", "update_display_data", "comm_open", "comm_msg", "comm_close")
"""What belongs to a cell also after its end, as what its threads and its ranks say."""


class JobClient(NotebookClient):
    """Executes cells; tells `on_message` what they say, and puts each output where its cell is.

    nbclient takes in only what belongs to the cell that runs. What belongs to an earlier one is
    taken in here, as it comes in a page.
    """

    def __init__(
        self,
        notebook: "NotebookNode",
        show: "NotebookShow",
        *,
        on_message: Callable[[str, Mapping[str, Any]], None],
        **more: Any,
    ) -> None:
        super().__init__(notebook, **more)
        self._on_message = on_message
        self._places: dict[str, tuple[NotebookNode, int]] = {}
        """By the id of the request that has run it, each cell and where it is."""
        self._running = ""
        self.comm_open_handlers[TARGET] = lambda _: _JobComm(show)

    async def async_start_new_kernel_client(self, **kwargs: Any) -> Any:
        """Connect to the kernel, and hear everything that it says."""
        client = await super().async_start_new_kernel_client(**kwargs)
        channel = client.iopub_channel
        receive = channel.get_msg

        async def get_msg(*args: Any, **how: Any) -> dict[str, Any]:
            message: dict[str, Any] = await receive(*args, **how)
            self._take_late(message)
            return message

        channel.get_msg = get_msg
        return client

    async def hear_late(self, timeout_s: float) -> None:
        """Take in one message while no cell runs, if one comes in this time."""
        self._running = ""
        assert self.kc is not None
        with suppress(Empty):
            await self.kc.iopub_channel.get_msg(timeout=timeout_s)

    def process_message(
        self, msg: dict[str, Any], cell: "NotebookNode", cell_index: int
    ) -> "NotebookNode | None":
        """Take in one message about the cell that runs."""
        self._running = msg["parent_header"].get("msg_id", "")
        self._places[self._running] = cell, cell_index
        kind = msg["msg_type"]
        try:
            return super().process_message(msg, cell, cell_index)
        except CellExecutionComplete:
            self._running = ""  # what it still says comes late, though the next has not begun
            raise
        finally:
            self._on_message(kind, msg["content"])

    def _take_late(self, message: dict[str, Any]) -> None:
        kind, by = message["msg_type"], message["parent_header"].get("msg_id", "")
        if by == self._running or by not in self._places or kind not in _LATE:
            return
        super().process_message(message, *self._places[by])
        if kind == "stream":  # what is displayed late, ranks say: events tell it
            self._on_message(kind, message["content"])


class _JobComm:
    """The kernel's way to tell of cells on ranks."""

    def __init__(self, show: "NotebookShow") -> None:
        self._show = show
        self._take: Callable[[JobEvent], None] = show.take_event

    def handle_msg(self, message: Mapping[str, Any]) -> None:
        """Take in one event; what is none, as from another release, is passed over."""
        with suppress(msgspec.DecodeError):
            event = read_event(message["content"]["data"][EVENT])
            if isinstance(event, SpmdBegan) and event.is_background:
                self._take = self._show.begin_background(event).take_event
            else:
                self._take(event)
