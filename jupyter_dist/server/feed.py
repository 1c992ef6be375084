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
from jupyter_dist.server.lazy_hub import LazyHub
from jupyter_dist.server.routes import RESOURCE

if TYPE_CHECKING:
    from jupyter_dist.server.feed_hub import FeedHub, PageSession


class FeedHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """Sends a page what it follows, as fast as it reads."""

    auth_resource = RESOURCE
    _hub: "FeedHub"
    _page: "PageSession | None" = None
    _writing: "asyncio.Task[None] | None" = None

    def initialize(self, lazy_hub: LazyHub) -> None:
        """Take in what returns the hub."""
        self._lazy_hub = lazy_hub

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Open the feed for a user who may read it."""
        user = self.current_user
        if not await ensure_async(
            self.authorizer.is_authorized(self, user, "read", self.auth_resource)
        ):
            raise web.HTTPError(403)
        self._hub = await self._lazy_hub.hub()
        await super().get(*args, **kwargs)

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Begin to send."""
        super().open(*args, **kwargs)
        self._page = self._hub.open()
        self._writing = asyncio.ensure_future(self._write(self._page))

    def on_message(self, message: str | bytes) -> None:
        """Take in what the page wants to follow."""
        from jupyter_dist.protocol.plain_values import to_text
        from jupyter_dist.server.page_messages import Refusal
        from jupyter_dist.server.page_requests import FollowAsked, read_request

        assert self._page is not None
        try:
            self._hub.follow(self._page, read_request(message, FollowAsked))
        except UsageError as problem:
            self._page.mailbox.put(("refused", ""), to_text(Refusal(text=str(problem))))

    def on_close(self) -> None:
        """Forget the page."""
        if self._writing is not None:
            self._writing.cancel()
        if self._page is not None:
            self._hub.leave(self._page)
            self._page = None

    async def _write(self, page: "PageSession") -> None:
        with suppress(WebSocketClosedError):
            while True:
                # Waits for a page that does not read; meanwhile its mailbox keeps the newest.
                await self.write_message(await page.mailbox.take())
