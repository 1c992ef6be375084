"""Tensors made of the blocks of a checkpoint, DTensors over the ranks that there are now."""

from collections.abc import Sequence
from typing import Any

from jupyter_dist.checkpoint.format.manifest import ArrayEntry, Form
from jupyter_dist.checkpoint.format.sharding import chunk_box, whole_box
from jupyter_dist.checkpoint.values.arrays import is_of, is_of_all_ranks
from jupyter_dist.checkpoint.values.blocks import (
    Array,
    Placement,
    Seat,
    import_library,
    is_extension,
)
from jupyter_dist.errors import CheckpointFailed


def as_tensor(path: str, entry: ArrayEntry, block: Array, device: Any = None) -> Any:
    """Make a tensor, trained if it was; without a device in host memory, that of the block."""
    tensor = _as_plain_tensor(path, entry.dtype, block)
    return _take_form(tensor if device is None else tensor.to(device), entry.form)


def _as_plain_tensor(path: str, dtype: str, block: Array) -> Any:
    torch = _import_torch(path)
    if not is_extension(dtype):
        return torch.from_numpy(block)
    # torch knows of no unsigned 16 bits that it could view as something else.
    signed = block.view("int16") if block.itemsize == 2 else block
    return torch.from_numpy(signed).view(getattr(torch, dtype))


def _take_form(tensor: Any, form: Form) -> Any:
    """Let a tensor be trained as the one was that was saved."""
    if form in {"parameter", "frozen"}:
        from torch.nn import Parameter

        return Parameter(tensor, requires_grad=form == "parameter")
    return tensor.requires_grad_() if form == "trained" else tensor


def like_tensor(path: str, entry: ArrayEntry, like: Any) -> Placement:
    """Put a tensor where another one lies: on its device, or over its device mesh."""
    if is_of("torch.distributed.tensor", "DTensor", like):
        placements = tuple(like.placements)
        if entry.layout == "per_rank" or len(placements) != 1 or placements[0].is_partial():
            raise CheckpointFailed(
                f"{path} in `like` is a DTensor with placements {placements}, and was saved "
                f"{entry.layout}. Accepted: one placement, Shard(dim) or Replicate(), for what is "
                "one array over all ranks."
            )
        if not is_of_all_ranks(like.device_mesh):
            raise CheckpointFailed(
                f"{path} in `like` is a DTensor over a mesh of ranks "
                f"{like.device_mesh.mesh.tolist()}. Accepted: a mesh of all ranks in their order."
            )
        axis = None if placements[0].is_replicate() else placements[0].dim
        return _over_mesh(path, entry, axis, like.device_mesh)
    boxes = (whole_box(entry.shape),)
    return Placement(boxes, lambda blocks: as_tensor(path, entry, blocks[0], like.device))


def on_new_device_mesh(path: str, entry: ArrayEntry, axis: int, seat: Seat) -> Placement:
    """Cut a DTensor again over all ranks, along the dimension it was cut along."""
    torch = _import_torch(path)
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()):
        raise CheckpointFailed(
            f"{path} was a DTensor, which needs a process group. Call "
            "torch.distributed.init_process_group() before on all ranks."
        )
    from torch.distributed.device_mesh import init_device_mesh

    kind = "cuda" if "nccl" in distributed.get_backend() else "cpu"
    return _over_mesh(path, entry, axis, init_device_mesh(kind, (seat.world_size,)))


def _over_mesh(path: str, entry: ArrayEntry, axis: int | None, mesh: Any) -> Placement:
    """Take this rank's part of an array over a device mesh of one dimension; None: all of it."""
    from torch.distributed.tensor import DTensor, Replicate, Shard

    place = Replicate() if axis is None else Shard(axis)
    box = whole_box(entry.shape)
    if axis is not None:
        box = chunk_box(entry.shape, axis, mesh.get_local_rank(), mesh.size())
    strides = [1] * len(entry.shape)
    for at in range(len(strides) - 2, -1, -1):
        strides[at] = strides[at + 1] * max(entry.shape[at + 1], 1)

    def build(blocks: Sequence[Array]) -> Any:
        local = _as_plain_tensor(path, entry.dtype, blocks[0]).to(mesh.device_type)
        whole = DTensor.from_local(
            local, mesh, [place], run_check=False, shape=entry.shape, stride=tuple(strides)
        )
        return _take_form(whole, entry.form)

    return Placement((box,), build)


def _import_torch(path: str) -> Any:
    return import_library("torch", path, "a tensor of torch")
