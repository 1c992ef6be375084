"""Arrays of all libraries as blocks of host memory, which is what a checkpoint holds of them.

No library is imported for this: an array can only be theirs if its library is loaded already.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from jupyter_dist.checkpoint.format.manifest import Box, Form, Library, Sharding
from jupyter_dist.checkpoint.format.number_types import NAMES
from jupyter_dist.checkpoint.format.sharding import box_shape, chunk_box, sliced_box, whole_box
from jupyter_dist.checkpoint.values.blocks import Array, is_extension
from jupyter_dist.errors import UsageError


@dataclass(eq=False, repr=False)
class Shard:
    """This rank's block of an array that lies over all ranks along `axis`.

    Blocks may differ in length along that axis. As many ranks as have saved them get their own
    back; on another number of ranks they are cut again as numpy.array_split does.
    """

    array: Any
    axis: int = 0

    def __repr__(self) -> str:
        shape = tuple(getattr(self.array, "shape", ()))
        return f"Shard({type(self.array).__name__} of shape {shape}, axis={self.axis})"


class Block(NamedTuple):
    """What this rank holds of an array."""

    box: Box
    """Its place in the whole; of a Shard its place in the block, until all ranks have told."""
    fetch: Callable[[], Array]
    """Gives it as a numpy array in host memory, contiguous; views what lies there already."""
    is_view: bool
    """What `fetch` gives is the user's own memory, which may change."""


class Held(NamedTuple):
    """An array as a rank has it."""

    library: Library
    dtype: str
    """numpy's name for it, or one of ml_dtypes."""
    shape: tuple[int, ...]
    """Of the whole array; of a Shard that of the block."""
    is_whole: bool
    """All of it is here, in one block; ranks may or may not have the same."""
    blocks: tuple[Block, ...]
    """The parts that this rank writes."""
    sharding: Sharding | None = None
    form: Form = "array"


def look_at(value: Any) -> Held | None:
    """Return what a checkpoint would hold of this array; None if it is not one of plain numbers.

    Raises UsageError for arrays of which no whole can be made.
    """
    if isinstance(value, Shard):
        return _of_shard(value)
    if isinstance(value, np.ndarray | np.generic):
        return _of_numpy(value)
    if is_of("torch", "Tensor", value):
        return _of_tensor(value)
    if is_of("jax", "Array", value):
        return _of_jax(value)
    if is_of("cupy", "ndarray", value):
        return _of_cupy(value)
    return None


def is_of(module: str, name: str, value: Any) -> bool:
    """Return whether this belongs to a library, which is not imported for it."""
    kind = getattr(sys.modules.get(module), name, None)
    return kind is not None and isinstance(value, kind)


def _is_saved(dtype: np.dtype[Any]) -> bool:
    """Return whether numbers of this type are kept as arrays; others are pickled."""
    return dtype.names is None and dtype.name in NAMES


def _of_numpy(value: Any) -> Held | None:
    if type(value) is not np.ndarray and not isinstance(value, np.generic):
        return None  # a subclass has more to it, as the mask of a masked array
    if not _is_saved(value.dtype):
        return None

    native = value.dtype.newbyteorder("=")

    def fetch() -> Array:
        return _contiguous(np.asarray(value, dtype=native))

    is_view = bool(value.flags.c_contiguous) and value.dtype == native
    held = _whole("numpy", native.name, value.shape, fetch, is_view=is_view)
    return held._replace(form="scalar") if isinstance(value, np.generic) else held


def _of_cupy(value: Any) -> Held | None:
    if not _is_saved(value.dtype):
        return None

    def fetch() -> Array:
        host: Array = sys.modules["cupy"].asnumpy(value, order="C")
        return host

    return _whole("cupy", value.dtype.name, value.shape, fetch, is_view=False)


def _whole(
    library: Library, dtype: str, shape: Sequence[int], fetch: Callable[[], Array], *, is_view: bool
) -> Held:
    block = Block(whole_box(shape), fetch, is_view)
    return Held(library, dtype, tuple(shape), is_whole=True, blocks=(block,))


def _of_shard(shard: Shard) -> Held:
    held = look_at(shard.array)
    if held is None or not held.is_whole:
        raise UsageError(
            f"checkpoint.Shard got {type(shard.array).__name__}. Accepted: this rank's block as an "
            "array of numpy, CuPy, torch or JAX that lies on this rank alone."
        )
    axis = shard.axis
    if not (isinstance(axis, int) and -len(held.shape) <= axis < len(held.shape)):
        raise UsageError(
            f"checkpoint.Shard got axis={axis!r} for a block of shape {held.shape}. Accepted: an "
            "axis that the block has."
        )
    sharding = Sharding(axis=axis % len(held.shape))
    return held._replace(is_whole=False, sharding=sharding)


# --- torch -----------------------------------------------------------------------------------


def _of_tensor(value: Any) -> Held | None:
    torch = sys.modules["torch"]
    if is_of("torch.distributed.tensor", "DTensor", value):
        return _of_dtensor(value)
    name = str(value.dtype).removeprefix("torch.")
    if value.layout != torch.strided or value.is_quantized or name not in NAMES:
        return None
    is_view = value.device.type == "cpu" and value.is_contiguous()
    held = _whole("torch", name, value.shape, lambda: _tensor_on_host(value), is_view=is_view)
    return held._replace(form=_form_of(value))


def _form_of(value: Any) -> Form:
    """Return whether a tensor is trained; one that was computed from such is not, on its own."""
    if is_of("torch.nn", "Parameter", value):
        return "parameter" if value.requires_grad else "frozen"
    return "trained" if value.requires_grad and value.is_leaf else "array"


def _tensor_on_host(value: Any) -> Array:
    """Return a tensor's numbers as numpy has them, without a copy where that is possible."""
    torch = sys.modules["torch"]
    tensor = value.detach().resolve_conj().resolve_neg().cpu().contiguous()
    name = str(tensor.dtype).removeprefix("torch.")
    if not is_extension(name):  # numpy's own list has these, too, once ml_dtypes is imported
        plain: Array = tensor.numpy()
        return plain
    integers = torch.int16 if tensor.element_size() == 2 else torch.uint8
    # The file has the bytes; what they mean stands beside them.
    raw: Array = tensor.view(integers).numpy()
    return raw


def _of_dtensor(value: Any) -> Held | None:
    placements, mesh = tuple(value.placements), value.device_mesh
    if len(placements) != 1 or mesh.ndim != 1:
        raise UsageError(
            f"a DTensor with placements {placements} cannot be saved. Accepted: one placement, "
            "Shard(dim) or Replicate(); for others save x.full_tensor()."
        )
    if not is_of_all_ranks(mesh):
        raise UsageError(
            f"a DTensor over a mesh of ranks {mesh.mesh.tolist()} cannot be saved. Accepted: a "
            "mesh of all ranks in their order; for others save x.full_tensor()."
        )
    placement, local = placements[0], value.to_local()
    held = _of_tensor(local)
    if held is None or placement.is_partial():
        raise UsageError(
            f"a DTensor of {value.dtype} with {placement} cannot be saved. Accepted: numbers, with "
            "Shard(dim) or Replicate(); for others save x.full_tensor()."
        )
    held = held._replace(form=_form_of(value))
    return held if placement.is_replicate() else _part_of(value, held, placement.dim)


def is_of_all_ranks(mesh: Any) -> bool:
    """Return whether a device mesh of one dimension has all ranks of torch in their order.

    In another order torch itself is not at one about which rank has which part.
    """
    world_size: int = sys.modules["torch"].distributed.get_world_size()
    return bool(mesh.mesh.tolist() == list(range(world_size)))


def _part_of(value: Any, held: Held, axis: int) -> Held:
    """Return where the block of this rank lies in the whole of a DTensor."""
    mesh, shape = value.device_mesh, tuple(value.shape)
    box = chunk_box(shape, axis, mesh.get_local_rank(), mesh.size())
    if box_shape(box) != held.shape:
        raise UsageError(
            f"a DTensor whose part on this rank has shape {held.shape} cannot be saved. Accepted: "
            f"parts as torch.chunk cuts them, {box_shape(box)} here; for others save "
            "x.full_tensor()."
        )
    (block,) = held.blocks
    return held._replace(
        shape=shape,
        is_whole=False,
        blocks=(block._replace(box=box),),
        sharding=Sharding(axis=axis, mesh_axes=("torch",)),
    )


# --- JAX -------------------------------------------------------------------------------------


def _of_jax(value: Any) -> Held | None:
    jax = sys.modules["jax"]
    if isinstance(value, jax.core.Tracer):
        raise UsageError(
            "a JAX array that is being traced (by jit, grad or vmap) has no values yet. Save "
            "outside of the traced function."
        )
    if not isinstance(value.dtype, np.dtype) or not _is_saved(value.dtype):
        return None
    if value.is_deleted():
        raise UsageError(
            "this JAX array has no memory any more: it was deleted, or donated to a jitted function"
        )
    name, shape = value.dtype.name, tuple(value.shape)
    sharding = _named_sharding(value.sharding)
    if value.is_fully_addressable:
        held = _whole("jax", name, shape, lambda: _contiguous(np.asarray(value)), is_view=False)
        return held._replace(sharding=sharding)
    blocks = tuple(
        Block(sliced_box(shard.index, shape), _fetcher(shard.data), is_view=False)
        for shard in value.addressable_shards
        if shard.replica_id == 0
    )
    return Held("jax", name, shape, is_whole=False, blocks=blocks, sharding=sharding)


def _fetcher(data: Any) -> Callable[[], Array]:
    return lambda: _contiguous(np.asarray(data))


def _named_sharding(sharding: Any) -> Sharding | None:
    """Keep how a NamedSharding lays an array over its mesh; None for other shardings."""
    jax = sys.modules["jax"]
    if not isinstance(sharding, jax.sharding.NamedSharding):
        return None
    mesh, spec = sharding.mesh, []
    for part in sharding.spec:
        axes = () if part is None else (part,) if isinstance(part, str) else tuple(part)
        spec.append(tuple(str(axis) for axis in axes))
    names = tuple(str(name) for name in mesh.axis_names)
    sizes = tuple(int(mesh.shape[name]) for name in mesh.axis_names)
    return Sharding(mesh_shape=sizes, mesh_axes=names, spec=tuple(spec))


def _contiguous(array: Array) -> Array:
    return np.ascontiguousarray(array) if array.ndim else array
