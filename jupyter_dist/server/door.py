"""The way to the desk, which opens when the first page comes: Jupyter Server starts as before."""

import asyncio
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_dist.server.on_thread import on_thread

if TYPE_CHECKING:
    from jupyter_dist.server.desk import Desk


class Door:
    """Opens the desk once; `root` is where notebooks are, `own_specs` a folder of this user."""

    def __init__(self, root: Path, own_specs: Path) -> None:
        self._root = root
        self._own_specs = own_specs
        self._desk: Desk | None = None

    async def desk(self) -> "Desk":
        """Give the desk; its imports take a moment, in which others are served."""
        if self._desk is None:
            imported = on_thread(lambda: import_module("jupyter_dist.server.desk"))
            module = await asyncio.wrap_future(imported)
            if self._desk is None:  # nobody else has waited for the same
                self._desk = module.Desk(asyncio.get_running_loop(), self._root, self._own_specs)
        return self._desk

    async def close(self) -> None:
        """Leave all clusters; they go on."""
        if self._desk is not None:
            await self._desk.close()
