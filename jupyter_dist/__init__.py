"""One notebook, many GPUs on many machines.

    %load_ext jupyter_dist
    %dist_start -n 4
    %%spmd
    comm.all_reduce(numpy.ones(3) * rank)

Public names are loaded when they are first used, so that an engine, which imports this package
too, never loads the notebook's side.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jupyter_dist.version import __version__ as __version__

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from jupyter_dist.cluster.cluster import Cluster as Cluster
    from jupyter_dist.cluster.result import RankResult as RankResult
    from jupyter_dist.cluster.result import SpmdResult as SpmdResult

_PUBLIC = {
    "Cluster": "jupyter_dist.cluster.cluster",
    "RankResult": "jupyter_dist.cluster.result",
    "SpmdResult": "jupyter_dist.cluster.result",
    "TopologyWidget": "jupyter_dist.views.topology.widget",
}
__all__ = ["__version__", "load_ipython_extension", "unload_ipython_extension", *_PUBLIC]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: "InteractiveShell") -> None:
    """`%load_ext jupyter_dist`: register the magics."""
    from jupyter_dist.magics.extension import load

    load(shell)


def unload_ipython_extension(shell: "InteractiveShell") -> None:
    """`%unload_ext jupyter_dist`: take the magics away; the cluster goes on."""
    from jupyter_dist.magics.extension import unload

    unload(shell)
