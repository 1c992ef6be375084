"""One comm of a rank; in a module of its own, because `comm` is imported only with widgets."""

from collections.abc import Callable, Sequence
from typing import Any

from comm.base_comm import BaseComm

Say = Callable[[str, str, dict[str, Any], Sequence[Any]], None]
"""Takes the id of the comm, the kind of the message, its content and its buffers."""


class RankComm(BaseComm):
    """Speaks to the page by way of the cluster."""

    kernel = "rank"
    """Who has one, as libraries ask, speaks to a page."""

    def __init__(self, say: Say, *arguments: Any, **options: Any) -> None:
        self._say = say
        super().__init__(*arguments, **options)

    def publish_msg(
        self,
        msg_type: str,
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        buffers: Sequence[Any] | None = None,
        **more: Any,
    ) -> None:
        """Send a message of Jupyter; the notebook's kernel echoes changes itself, and at once."""
        data = data or {}
        if data.get("method") == "echo_update":
            return
        content = {"data": data, "metadata": metadata or {}, **more}
        self._say(self.comm_id, msg_type.removeprefix("comm_"), content, buffers or ())
