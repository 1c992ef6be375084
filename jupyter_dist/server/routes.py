"""What pages ask by REST: the list, saved specifications, a start, and requests to a cluster."""

from http import HTTPStatus

import msgspec
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from jupyter_dist.errors import (
    ClusterExists,
    ClusterGone,
    ClusterUnreachable,
    DistError,
    NoCluster,
    UsageError,
)
from jupyter_dist.server.lazy_hub import LazyHub

RESOURCE = "jupyter_dist"
"""How a server's authorizer knows these routes."""
_STATUS: dict[type[DistError], HTTPStatus] = {
    NoCluster: HTTPStatus.NOT_FOUND,
    ClusterExists: HTTPStatus.CONFLICT,
    UsageError: HTTPStatus.BAD_REQUEST,
    ClusterGone: HTTPStatus.SERVICE_UNAVAILABLE,
    ClusterUnreachable: HTTPStatus.SERVICE_UNAVAILABLE,
    DistError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""Of several that fit the first counts."""


class _Handler(APIHandler):
    """Answers in JSON; what goes wrong is a `message`."""

    auth_resource = RESOURCE

    def initialize(self, lazy_hub: LazyHub) -> None:
        """Take in what returns the hub."""
        self._lazy_hub = lazy_hub

    def _answer(self, answer: object, status: HTTPStatus = HTTPStatus.OK) -> None:
        self.set_status(status)
        self.finish(msgspec.json.encode(answer))

    def _refuse(self, problem: DistError) -> None:
        status = next(code for kind, code in _STATUS.items() if isinstance(problem, kind))
        self._answer({"message": str(problem)}, status)


class ClustersHandler(_Handler):
    """The list, and starts."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Give this user's clusters."""
        hub = await self._lazy_hub.hub()
        self._answer({"clusters": await hub.list_clusters()})

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Start a cluster; answers when it is ready, or why it is not."""
        from jupyter_dist.server.page_requests import StartAsked, read_request

        hub = await self._lazy_hub.hub()
        try:
            row = await hub.start(read_request(self.request.body, StartAsked))
        except DistError as problem:
            self._refuse(problem)
        else:
            self._answer({"cluster": row}, HTTPStatus.CREATED)


class RequestsHandler(_Handler):
    """What the buttons of a view ask."""

    @web.authenticated
    @authorized
    async def post(self, name: str) -> None:
        """Have a cluster do something; answers when it is done, with all replies."""
        from jupyter_dist.server.page_requests import ViewAsked, read_request

        hub = await self._lazy_hub.hub()
        try:
            replies = await hub.request(name, read_request(self.request.body, ViewAsked))
        except DistError as problem:
            self._refuse(problem)
        else:
            self._answer({"replies": replies})


class SpecsHandler(_Handler):
    """Saved specifications."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Give them, and the folders in which they are looked for."""
        hub = await self._lazy_hub.hub()
        self._answer({"specs": await hub.list_specs(), "folders": hub.folders.paths})
