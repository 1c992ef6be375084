"""torch.distributed.rpc: a bare init_rpc() finds a place to meet, as it does under torchrun."""

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.rank_context import RankContext
from jupyter_dist.frameworks.rank_facts import gather_facts
from jupyter_dist.frameworks.replacing import replace
from jupyter_dist.frameworks.torch.request import PLACE_VARIABLES, GroupRequest
from jupyter_dist.frameworks.torch.store import open_store

MODULE = "torch.distributed.rpc"
CALL = f"{MODULE}.init_rpc()"
_ARGUMENTS = ("name", "backend", "rank", "world_size", "rpc_backend_options")
_TIMEOUT_S = 300.0
"""As long as ranks wait for each other before a group is formed."""
_BY_ENVIRONMENT = (None, "", "env://")


class Rpc:
    """Gives each bare init_rpc() a store of its own, so that none finds what another has left."""

    def __init__(self, context: RankContext, set_place: Callable[[str], dict[str, str]]) -> None:
        self._context = context
        self._set_place = set_place
        """Has the environment name this address; returns the variables that do."""
        self._found: dict[str, str] = {}
        self._store: Any = None

    def take_over(self, module: ModuleType) -> None:
        """Put ourselves in front of its init_rpc, if this torch has one."""
        replace(module, "init_rpc", self._init_rpc)

    def _init_rpc(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(_ARGUMENTS, args, strict=False)), **kwargs}
        options = given.get("rpc_backend_options")
        if getattr(options, "init_method", None) in _BY_ENVIRONMENT and self._is_placeless():
            self._find_place()
        if not {"rank", "world_size"} & given.keys():
            info = self._context.info
            kwargs |= {"rank": info.rank, "world_size": info.world_size}
        return original(*args, **kwargs)

    def _is_placeless(self) -> bool:
        """Return whether neither the user nor a group has said where to meet."""
        given = {name: os.environ[name] for name in PLACE_VARIABLES if name in os.environ}
        return given.get("MASTER_PORT") in {None, "0"} or given == self._found

    def _find_place(self) -> None:
        """Have rank 0 open a store, and tell all ranks where; raises the same on all of them."""
        info, opened = self._context.info, GroupRequest()
        if info.rank == 0:
            try:
                self._store, address = open_store(
                    self._context.bind_host, 0, info.world_size, _TIMEOUT_S
                )
                opened = GroupRequest(store=address)
            except FrameworkError as error:
                opened = GroupRequest(obstacle=str(error))
        facts = gather_facts(self._context, CALL, opened, _TIMEOUT_S)
        first = facts[min(facts)]
        if first.obstacle:
            raise FrameworkError(f"{CALL}: {first.obstacle}.")
        self._found = self._set_place(first.store)
