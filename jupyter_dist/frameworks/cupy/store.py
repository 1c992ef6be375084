"""What stands for CuPy's TCP store: values and barriers over the control channel.

CuPy's own has a fixed port, a child process that must be forked and stays behind after a crash,
and a barrier that deadlocks when it is called twice.
"""

import msgspec

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.rank_context import RankContext

BARRIER = "barrier() of CuPy's process group"
_BARRIER_TIMEOUT_S = 3600.0
"""Ranks that fail or finish are noticed at once; the others may take their time."""
_VALUE_TIMEOUT_S = 60.0

Value = bytes | int | tuple[int, ...]


class Store:
    """Stands for TCPStore: there is nothing to run."""

    def __init__(self, world_size: int) -> None:
        del world_size

    def run(self, host: str = "", port: int = 0) -> None:
        """Do nothing: no server is needed."""

    def stop(self) -> None:
        """Do nothing: there is no server."""


class StoreProxy:
    """Stands for TCPStoreProxy: what one process group knows in common."""

    def __init__(self, context: RankContext, number: int) -> None:
        self._context = context
        self._number = number

    def __setitem__(self, key: str, value: Value) -> None:
        if not isinstance(value, bytes | int | tuple):
            raise TypeError(f"CuPy's store takes bytes and numbers, not {type(value).__name__}")
        self._context.put(self._name(key), msgspec.msgpack.encode(value))

    def __getitem__(self, key: str) -> Value:
        data = self._context.get(self._name(key), _VALUE_TIMEOUT_S)
        value = msgspec.msgpack.decode(data)
        return tuple(value) if isinstance(value, list) else value

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        everyone = tuple(range(self._context.info.world_size))
        self._context.compare("cupy", everyone, claim=BARRIER, timeout_s=_BARRIER_TIMEOUT_S)

    def _name(self, key: str) -> str:
        return f"cupy {self._number} {key}"


def refuse_proxy(*_: object) -> StoreProxy:
    """Stand for the proxy where the other ranks were not asked."""
    raise FrameworkError(
        "in a cell, make CuPy's process group on all ranks by "
        "cupyx.distributed.init_process_group(world_size, rank), not NCCLBackend()."
    )
