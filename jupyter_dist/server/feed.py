"""The live feed: one WebSocket for each page."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_dist.errors import UsageError
from jupyter_dist.server.door import Door
from jupyter_dist.server.routes import RESOURCE

if TYPE_CHECKING:
    from jupyter_dist.server.desk import Desk, Page


class FeedHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """Sends a page what it follows, as fast as it reads."""

    auth_resource = RESOURCE
    _desk: "Desk"
    _page: "Page | None" = None
    _writing: "asyncio.Task[None] | None" = None

    def initialize(self, door: Door) -> None:
        """Take in the way to the desk."""
        self._door = door

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Open the feed for a user who may read it."""
        user = self.current_user
        if not await ensure_async(
            self.authorizer.is_authorized(self, user, "read", self.auth_resource)
        ):
            raise web.HTTPError(403)
        self._desk = await self._door.desk()
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Begin to send."""
        super().open(*args, **kwargs)
        self._page = self._desk.open()
        self._writing = asyncio.ensure_future(self._write(self._page))

    def on_message(self, message: str | bytes) -> None:
        """Take in what the page wants to follow."""
        from jupyter_dist.server.asked import FollowAsked, read_request
        from jupyter_dist.server.said import Refusal, to_text

        assert self._page is not None
        try:
            self._desk.follow(self._page, read_request(message, FollowAsked))
        except UsageError as problem:
            self._page.mailbox.put(("refused", ""), to_text(Refusal(text=str(problem))))

    def on_close(self) -> None:
        """Forget the page."""
        if self._writing is not None:
            self._writing.cancel()
        if self._page is not None:
            self._desk.leave(self._page)
            self._page = None

    async def _write(self, page: "Page") -> None:
        with suppress(WebSocketClosedError):
            while True:
                # Waits for a page that does not read; meanwhile its mailbox keeps the newest.
                await self.write_message(await page.mailbox.take())
