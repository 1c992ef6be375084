"""What becomes of a saved array here: which blocks this rank takes, and what it makes of them."""

from collections.abc import Sequence
from typing import Any

from jupyter_dist.checkpoint.format.manifest import ArrayEntry, Box, Entry
from jupyter_dist.checkpoint.format.sharding import axis_box, whole_box
from jupyter_dist.checkpoint.restore.jax_placement import as_jax, on_new_mesh, on_sharding
from jupyter_dist.checkpoint.restore.torch_placement import (
    as_tensor,
    like_tensor,
    on_new_device_mesh,
)
from jupyter_dist.checkpoint.values.arrays import Shard, is_of
from jupyter_dist.checkpoint.values.blocks import Array, Placement, Seat, as_numpy, cannot_make
from jupyter_dist.errors import CheckpointError, CheckpointFailed


def place(path: str, entry: ArrayEntry, seat: Seat, like: Any = None) -> Placement:
    """Return which parts of an array this rank needs, and how they become what was saved.

    `like` is an array, a Shard or a jax.ShapeDtypeStruct that stands where this one shall stand:
    the result is laid out so. Raises CheckpointFailed for what cannot be made here.
    """
    if like is not None:
        _check_like(path, entry, like)
        return _place_like(path, entry, seat, like)
    sharding = entry.sharding
    if is_over_devices(entry, seat.saved_world_size):
        assert sharding is not None
        return on_new_mesh(path, entry, sharding, seat)
    if entry.layout != "sharded":
        return _whole(path, entry, entry.library)
    if sharding is None:
        raise CheckpointFailed(
            f"{path} lay over devices in a way that has no name. Give `like` with a "
            "jax.ShapeDtypeStruct in its place that says a sharding."
        )
    if sharding.mesh_axes:
        return on_new_device_mesh(path, entry, sharding.axis, seat)
    return _shard(path, entry, seat, sharding.axis)


def is_over_devices(entry: Entry | None, saved_world_size: int) -> bool:
    """Return whether this is an array of JAX over the devices of all ranks."""
    if not isinstance(entry, ArrayEntry) or entry.library != "jax":
        return False
    is_of_mesh = entry.sharding is not None and bool(entry.sharding.mesh_axes)
    # One rank alone saves the whole of it, and did mean a mesh of all devices.
    return is_of_mesh and (entry.layout == "sharded" or saved_world_size == 1)


def _place_like(path: str, entry: ArrayEntry, seat: Seat, like: Any) -> Placement:
    if isinstance(like, Shard):
        return _shard(path, entry, seat, like.axis % len(entry.shape), like.array)
    library = library_of(like)
    if library == "jax" and getattr(like, "sharding", None) is not None:
        return on_sharding(path, entry, like.sharding)
    if library == "torch":
        return like_tensor(path, entry, like)
    return _whole(path, entry, library)


def _whole(path: str, entry: ArrayEntry, library: str) -> Placement:

    def build(blocks: Sequence[Array]) -> Any:
        return as_library(path, library, entry, blocks[0])

    return Placement((whole_box(entry.shape),), build)


def _shard(path: str, entry: ArrayEntry, seat: Seat, axis: int, like: Any = None) -> Placement:
    """Take the block of this rank of an array that lies over all ranks along an axis.

    `like` is an array to whose library and device it goes; None: to those it had.
    """
    box = _own_block(entry, seat, axis) or axis_box(entry.shape, axis, seat.rank, seat.world_size)
    library = entry.library if like is None else library_of(like)
    device = getattr(like, "device", None) if library == "torch" else None

    def build(blocks: Sequence[Array]) -> Shard:
        return Shard(as_library(path, library, entry, blocks[0], device), axis)

    return Placement((box,), build)


def _own_block(entry: ArrayEntry, seat: Seat, axis: int) -> Box | None:
    """Return the block that this rank itself has saved, if as many ranks as then cut it alike.

    What belongs to it may be among the variables that each rank has for itself.
    """
    how = entry.sharding
    if seat.world_size != seat.saved_world_size or how is None or how.mesh_axes or how.axis != axis:
        return None
    blocks = {piece.rank: piece.box for piece in entry.pieces}
    is_one_each = len(blocks) == len(entry.pieces) == seat.world_size
    return blocks[seat.rank] if is_one_each else None


def as_library(path: str, library: str, entry: ArrayEntry, block: Array, device: Any = None) -> Any:
    """Make an array of a library of a block in host memory; raises CheckpointFailed.

    `device` is one of torch.
    """
    match library:
        case "numpy":
            array = as_numpy(path, entry.dtype, block)
            return array[()] if entry.form == "scalar" else array
        case "cupy":
            return _as_cupy(path, entry.dtype, block)
        case "torch":
            return as_tensor(path, entry, block, device)
        case "jax":
            return as_jax(path, entry.dtype, block)
        case _:
            raise CheckpointFailed(f"{path} is an array of {library}, which is not known here.")


def _as_cupy(path: str, dtype: str, block: Array) -> Any:
    try:
        import cupy

        return cupy.asarray(as_numpy(path, dtype, block))
    except CheckpointError:
        raise
    except Exception as error:  # CUDA's own errors have no base that is there without CuPy
        raise cannot_make(path, "a CuPy array", error) from error


def library_of(like: Any) -> str:
    """Name the library of an array that stands in `like`."""
    if is_of("torch", "Tensor", like):
        return "torch"
    if is_of("jax", "Array", like) or is_of("jax", "ShapeDtypeStruct", like):
        return "jax"
    return "cupy" if is_of("cupy", "ndarray", like) else "numpy"


def is_array_like(like: Any) -> bool:
    """Return whether this says how an array shall be laid out."""
    return isinstance(like, Shard) or (hasattr(like, "shape") and hasattr(like, "dtype"))


def _check_like(path: str, entry: ArrayEntry, like: Any) -> None:
    """Raise CheckpointFailed when what was saved does not fit into what is wanted."""
    template = like.array if isinstance(like, Shard) else like
    shape, dtype = tuple(template.shape), str(template.dtype).removeprefix("torch.")
    wanted, saved = f"{dtype} of shape {shape}", f"{entry.dtype} of shape {entry.shape}"
    if isinstance(like, Shard):
        fits = len(shape) == len(entry.shape) > 0 and dtype == entry.dtype
        wanted += " as the block of a Shard"
    else:
        fits = shape == entry.shape and dtype == entry.dtype
    if not fits:
        raise CheckpointFailed(
            f"{path} in `like` is {wanted}, and the checkpoint has {saved}. Accepted: the same "
            "dtype and shape as were saved; convert it afterwards."
        )
    if entry.layout == "per_rank" and isinstance(like, Shard):
        raise CheckpointFailed(
            f"{path} in `like` is a Shard, and was saved by each rank on its own: its parts are "
            "not one array. Leave it out of `like`."
        )
