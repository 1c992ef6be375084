"""The meshes of JAX and torch, which a cell has made: their axes, and the rank at each place."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.protocol.commands import RankMesh


def read_mesh(name: str, variables: Mapping[str, Any], world_size: int) -> RankMesh:
    """Return the mesh of this name; raise UsageError where it does not have each rank once."""
    if name not in variables:
        raise UsageError(f"there is no {name!r} here. Name a mesh that a cell has made.")
    mesh = variables[name]
    if hasattr(mesh, "mesh_dim_names"):
        names, sizes = mesh.mesh_dim_names, tuple(mesh.mesh.shape)
        order = [int(rank) for rank in mesh.mesh.flatten().tolist()]
    elif hasattr(mesh, "axis_names") and hasattr(mesh, "devices"):
        names, sizes = mesh.axis_names, mesh.devices.shape
        order = [device.process_index for device in mesh.devices.flat]
    else:
        raise UsageError(
            f"{name} is a {type(mesh).__name__}. Accepted: a jax.sharding.Mesh, or a DeviceMesh of "
            "torch."
        )
    if not names:
        raise UsageError(f"{name} has no names of axes. Make it with mesh_dim_names=('data', …).")
    _check_order(name, order, world_size)
    return RankMesh(tuple(map(str, names)), tuple(map(int, sizes)), tuple(order))


def _check_order(name: str, order: list[int], world_size: int) -> None:
    counts = Counter(order)
    rank, most = counts.most_common(1)[0]
    if most > 1:
        raise UsageError(
            f"{name} has {most} devices of rank {rank}, and axes are over ranks: it needs one "
            "device of each."
        )
    if missing := [rank for rank in range(world_size) if rank not in counts]:
        raise UsageError(
            f"{name} leaves out {name_ranks(missing)}. Make a mesh of all {world_size} ranks, or "
            "name axes with %dist_axes data=4,model=2."
        )
