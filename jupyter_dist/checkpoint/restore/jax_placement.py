"""Arrays of JAX made of the blocks of a checkpoint, on the devices that there are now."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jupyter_dist.checkpoint.format.manifest import ArrayEntry, Sharding
from jupyter_dist.checkpoint.format.sharding import sliced_box
from jupyter_dist.checkpoint.values.blocks import Array, Placement, Seat, as_numpy, import_library
from jupyter_dist.errors import CheckpointFailed


def as_jax(path: str, dtype: str, block: Array) -> Any:
    """Make an array on this process's default device."""
    jax = _import_jax(path)
    _check_dtype(jax, path, dtype)
    return jax.numpy.asarray(as_numpy(path, dtype, block))


def has_formed_jax() -> bool:
    """Return whether JAX spans ranks here. Raises CheckpointFailed without JAX."""
    return bool(_import_jax("an array over all devices").distributed.is_initialized())


def form_jax() -> None:
    """Form JAX across all ranks, which all call this."""
    _import_jax("an array over all devices").distributed.initialize()


def on_new_mesh(path: str, entry: ArrayEntry, sharding: Sharding, seat: Seat) -> Placement:
    """Lay an array over a mesh of all devices as it lay over that of those who saved it."""
    jax = _import_jax(path)
    if jax.process_count() != seat.world_size:
        raise CheckpointFailed(
            f"{path} lay over all devices, and JAX has {jax.process_count()} of "
            f"{seat.world_size} ranks. Call jax.distributed.initialize() before on all ranks."
        )
    devices = jax.devices()
    shape = new_mesh_shape(sharding.mesh_shape, len(devices))
    if shape is None:
        axes = ", ".join(
            f"{name}={size}"
            for name, size in zip(sharding.mesh_axes, sharding.mesh_shape, strict=True)
        )
        raise CheckpointFailed(
            f"{path} lay over a mesh ({axes}), and now there are {len(devices)} devices. Give "
            "`like` with a jax.ShapeDtypeStruct in its place that says the new sharding."
        )
    mesh = jax.sharding.Mesh(np.array(devices).reshape(shape), sharding.mesh_axes)
    parts = (part[0] if len(part) == 1 else part or None for part in sharding.spec)
    spec = jax.sharding.PartitionSpec(*parts)
    return on_sharding(path, entry, jax.sharding.NamedSharding(mesh, spec))


def new_mesh_shape(saved: Sequence[int], devices: int) -> tuple[int, ...] | None:
    """Return the mesh for so many devices; None where it is not clear how to cut them."""
    if math.prod(saved) == devices:
        return tuple(saved)
    wide = [axis for axis, size in enumerate(saved) if size > 1] or [0]
    if len(wide) > 1:
        return None
    return tuple(devices if axis == wide[0] else 1 for axis in range(len(saved)))


def on_sharding(path: str, entry: ArrayEntry, sharding: Any) -> Placement:
    """Lay an array out by a sharding of JAX."""
    jax = _import_jax(path)
    _check_dtype(jax, path, entry.dtype)
    if entry.layout == "per_rank" and not sharding.is_fully_addressable:
        raise CheckpointFailed(
            f"{path} in `like` lies over several ranks, and was saved by each rank on its own: its "
            "parts are not one array. Leave it out of `like`."
        )
    try:
        indices = sharding.addressable_devices_indices_map(entry.shape)
        sharding.shard_shape(entry.shape)
    except ValueError as error:
        raise CheckpointFailed(
            f"{path} of shape {entry.shape} cannot be cut so: {error}. Give `like` with a "
            "jax.ShapeDtypeStruct in its place whose sharding fits."
        ) from error
    places = {device: sliced_box(index, entry.shape) for device, index in indices.items()}
    boxes = tuple(dict.fromkeys(places.values()))

    def build(blocks: Sequence[Array]) -> Any:
        by_box = dict(zip(boxes, blocks, strict=True))
        arrays = [
            jax.device_put(as_numpy(path, entry.dtype, by_box[box]), device)
            for device, box in places.items()
        ]
        return jax.make_array_from_single_device_arrays(entry.shape, sharding, arrays)

    return Placement(boxes, build)


def _import_jax(path: str) -> Any:
    return import_library("jax", path, "an array of JAX")


def _check_dtype(jax: Any, path: str, dtype: str) -> None:
    """Raise CheckpointFailed for numbers that JAX would cut to 32 bits."""
    if dtype.endswith("64") or dtype == "complex128":
        kept = jax.dtypes.canonicalize_dtype(np.dtype(dtype)).name
        if kept != dtype:
            raise CheckpointFailed(
                f"{path} was an array of JAX of {dtype}, and JAX would make {kept} of it here. "
                'Allow 64 bits first (jax.config.update("jax_enable_x64", True)), or give `like` '
                "with an array of numpy in its place."
            )
