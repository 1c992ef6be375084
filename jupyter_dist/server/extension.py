"""What Jupyter Server loads: our routes, below its base URL and behind its authentication."""

from pathlib import Path

from jupyter_core.paths import jupyter_config_dir
from jupyter_server.extension.application import ExtensionApp

from jupyter_dist.server.debugger.handler import PageSessions, RankDebuggerHandler, end_all
from jupyter_dist.server.feed import FeedHandler
from jupyter_dist.server.lazy_hub import LazyHub
from jupyter_dist.server.routes import ClustersHandler, RequestsHandler, SpecsHandler

SPECS_FOLDER = "jupyter_dist"
"""In Jupyter's configuration directory: specifications of this user."""


class ClusterExtension(ExtensionApp):
    """Lists clusters and carries what they say to pages, and requests of pages to them."""

    name = "jupyter_dist"
    app_name = "jupyter-dist"
    _lazy_hub: LazyHub | None = None
    _debugging: PageSessions

    def initialize_handlers(self) -> None:
        """Add our routes."""
        assert self.serverapp is not None
        own_specs = Path(jupyter_config_dir()) / SPECS_FOLDER
        self._lazy_hub = LazyHub(Path(self.serverapp.root_dir), own_specs)
        hub = {"lazy_hub": self._lazy_hub}
        self._debugging = set()
        self.handlers += [
            (r"/jupyter-dist/clusters", ClustersHandler, hub),
            (r"/jupyter-dist/clusters/(.+)/requests", RequestsHandler, hub),
            (
                r"/jupyter-dist/clusters/(.+)/ranks/(\d{1,9})/debugger",
                RankDebuggerHandler,
                {"sessions": self._debugging},
            ),
            (r"/jupyter-dist/specs", SpecsHandler, hub),
            (r"/jupyter-dist/feed", FeedHandler, hub),
        ]

    async def stop_extension(self) -> None:
        """Leave all clusters; they go on."""
        if self._lazy_hub is not None:
            await end_all(self._debugging)
            await self._lazy_hub.close()
