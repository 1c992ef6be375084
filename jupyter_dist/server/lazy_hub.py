"""The hub, made when the first page comes: Jupyter Server starts as quickly as before."""

import asyncio
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_dist.server.on_thread import on_thread

if TYPE_CHECKING:
    from jupyter_dist.server.feed_hub import FeedHub


class LazyHub:
    """Makes the hub once; `root` is where notebooks are, `own_specs` a folder of this user."""

    def __init__(self, root: Path, own_specs: Path) -> None:
        self._root = root
        self._own_specs = own_specs
        self._hub: FeedHub | None = None

    async def hub(self) -> "FeedHub":
        """Return the hub; its imports take a moment, in which others are served."""
        if self._hub is None:
            imported = on_thread(lambda: import_module("jupyter_dist.server.feed_hub"))
            module = await asyncio.wrap_future(imported)
            if self._hub is None:  # nobody else has waited for the same
                self._hub = module.FeedHub(asyncio.get_running_loop(), self._root, self._own_specs)
        return self._hub

    async def close(self) -> None:
        """Leave all clusters; they go on."""
        if self._hub is not None:
            await self._hub.close()
