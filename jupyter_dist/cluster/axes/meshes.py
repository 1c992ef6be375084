"""A mesh that ranks have made, which is the same on all of them."""

from typing import TYPE_CHECKING

from jupyter_dist.cluster.result import read_reports
from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.protocol.commands import MESH, RankMesh
from jupyter_dist.text.lists import group_pairs

if TYPE_CHECKING:
    from jupyter_dist.cluster.session import Session


def ask_mesh(cluster: "Session", name: str) -> RankMesh:
    """Return the mesh that this variable is on all ranks.

    Raise UsageError where they differ, and CellFailed where a rank has none that names axes.
    """
    result = cluster.run_command(MESH.order(name, f"%dist_axes --from {name}"))
    result.raise_first()
    by_mesh = group_pairs((mesh, rank) for rank, mesh in read_reports(MESH, result).items())
    if len(by_mesh) > 1:
        some, *_others = by_mesh.values()
        raise UsageError(
            f"{name} of {name_ranks(some)} is not that of the other ranks: their axes or the order "
            "of their devices differ. Make the same mesh on all ranks."
        )
    return next(iter(by_mesh))
