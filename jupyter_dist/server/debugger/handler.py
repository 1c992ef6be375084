"""The WebSocket by which a page debugs a rank: a message of the protocol is one of the socket."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado import web
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_dist.server.on_thread import on_thread
from jupyter_dist.server.routes import RESOURCE

if TYPE_CHECKING:
    from jupyter_dist.server.debugger.page_session import PageSession

CLOSE_TIMEOUT_S = 3.0
PageSessions = set["PageSession"]


class RankDebuggerHandler(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """Lets a page that may execute code debug a rank as long as it is there."""

    auth_resource = RESOURCE
    _session: "PageSession | None" = None

    def initialize(self, sessions: PageSessions) -> None:
        """Take in where sessions are noted, at least while they last."""
        self._sessions = sessions

    @ws_authenticated
    async def get(self, *args: Any, **kwargs: Any) -> None:
        """Open it for a user who may do to a rank what debuggers can: run anything."""
        user = self.current_user
        if not await ensure_async(
            self.authorizer.is_authorized(self, user, "execute", self.auth_resource)
        ):
            raise web.HTTPError(403)
        await super().get(*args, **kwargs)

    def open(self, cluster: str, rank: str) -> None:
        """Begin a session of this rank."""
        from jupyter_dist.server.debugger.page_session import Page, PageSession

        super().open()
        loop = asyncio.get_running_loop()

        def on_loop(call: Any, *arguments: Any) -> None:
            with suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(call, *arguments)

        page = Page(lambda content: on_loop(self._send, content), lambda: on_loop(self.close))
        self._sessions.difference_update([each for each in self._sessions if not each.is_alive()])
        self._session = PageSession(page, (cluster, int(rank)), self._sessions)
        self._sessions.add(self._session)
        self._session.start()

    def on_message(self, message: str | bytes) -> None:
        """Take in what the page says."""
        if self._session is not None:
            self._session.page.hear(message.encode() if isinstance(message, str) else message)

    def on_close(self) -> None:
        """Have the rank go on: the page has gone, or is done."""
        if self._session is not None:
            self._session.page.leave()

    def _send(self, content: bytes) -> None:
        with suppress(WebSocketClosedError):
            self.write_message(content.decode())


async def end_all(sessions: PageSessions) -> None:
    """Have the ranks of all pages go on: the server ends."""
    ending = tuple(sessions)

    def wait() -> None:
        for session in ending:
            session.join(CLOSE_TIMEOUT_S)

    for session in ending:
        session.page.leave()
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.wrap_future(on_thread(wait)), CLOSE_TIMEOUT_S)
