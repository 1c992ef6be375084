"""Arrays of JAX that span processes: made of each rank's part, read part by part, and gathered.

Twins of what JAX's multihost_utils does by programs that all processes must run. Here ranks compare
what they mean first; parts go the way of host memory, so that they arrive also where JAX's own
mesh is broken; nothing is cut to 32 bits.
"""

import math
import sys
from typing import Any

import numpy as np

from jupyter_dist.collective.calls.arrays import is_of
from jupyter_dist.collective.calls.call import Array
from jupyter_dist.errors import UsageError

Box = tuple[tuple[int, int], ...]
"""Where a part begins and ends along each axis."""


def is_global(given: Any) -> bool:
    """Return whether this is a JAX array of which this process has only a part."""
    if not is_of("jax", "Array", given) or isinstance(given, sys.modules["jax"].core.Tracer):
        return False
    return not given.is_fully_addressable


class GlobalArrays:
    """What communicators do with arrays of JAX that span processes."""

    def to_global(self: Any, local: Any, mesh: Any, spec: Any) -> Any:
        """Make a JAX array over all processes of each rank's part, divided as `spec` says.

        Raises ValuesDiffer, naming ranks, when parts differ in shape, dtype or spec, or in value
        where all ranks must have the same; UsageError when JAX would change the dtype.
        """
        import jax

        if spec is None:
            raise UsageError(
                "to_global got None as spec. Accepted: a jax.sharding.PartitionSpec; "
                "PartitionSpec() is an array that all have whole."
            )
        array = np.asarray(local)
        _check_kept(jax, array.dtype)
        sharding = jax.sharding.NamedSharding(mesh, spec)
        meant: dict[str, Any] = {"shape": array.shape, "dtype": str(array.dtype), "spec": str(spec)}
        if sharding.is_fully_replicated:
            meant["value"] = array
        self.assert_equal(meant, "to_global")
        return jax.make_array_from_process_local_data(sharding, array)

    def to_local(self, array: Any) -> Array:
        """Return this rank's part of a JAX array over all processes; nothing moves between ranks.

        Raises UsageError when what this rank has is no box of the whole.
        """
        parts = _read_shards(array, only_first=False)
        ends = list(zip(*(box for box, _part in parts), strict=True))
        box = tuple((min(low for low, _ in axis), max(high for _, high in axis)) for axis in ends)
        output = np.empty([high - low for low, high in box], array.dtype)
        filled = np.zeros(output.shape, bool)
        for inner, part in parts:
            place = tuple(
                slice(low - start, high - start)
                for (low, high), (start, _) in zip(inner, box, strict=True)
            )
            output[place], filled[place] = part, True
        if not filled.all():
            raise UsageError(
                "to_local got an array of which this rank has parts that do not lie side by side: "
                f"{[inner for inner, _part in parts]}. Read them one by one from "
                "x.addressable_shards."
            )
        return output


def gather_whole(comm: Any, array: Any, out: Any, *, tiled: bool) -> Array:
    """Return every rank the whole of a JAX array that spans processes, as an array of numpy.

    Raises UsageError, on all ranks, when those of this communicator do not have all of it.
    """
    if not tiled or out is not None:
        raise UsageError(
            "all_gather got a JAX array that spans processes. Accepted: tiled=True, which gives "
            "every rank the whole of it, without `out`; or this rank's part, comm.to_local(x)."
        )
    parts = _read_shards(array, only_first=True)
    mine = b"".join(part.tobytes() for _box, part in parts)
    about = (tuple(array.shape), str(array.dtype), [box for box, _part in parts])
    told = comm.all_gather_object(about)
    boxes = [each[2] for each in told]
    itemsize = array.dtype.itemsize
    counts = [sum(map(_count, of_rank)) for of_rank in boxes]
    if len({each[:2] for each in told}) > 1 or sum(counts) != array.size:
        raise UsageError(
            f"all_gather got parts of a JAX array of shape {array.shape}; ranks of this "
            f"communicator have {sum(counts)} of its {array.size} elements. Accepted: one array, "
            "on all ranks that have a part of it."
        )
    padded = np.zeros(max(counts) * itemsize, np.uint8)
    padded[: len(mine)] = np.frombuffer(mine, np.uint8)
    whole = np.empty(array.shape, array.dtype)
    for of_rank, row in zip(boxes, comm.all_gather(padded), strict=True):
        begin = 0
        for box in of_rank:
            end = begin + _count(box) * itemsize
            shape = [high - low for low, high in box]
            place = tuple(slice(low, high) for low, high in box)
            whole[place] = row[begin:end].view(array.dtype).reshape(shape)
            begin = end
    return whole


def _read_shards(array: Any, *, only_first: bool) -> list[tuple[Box, Array]]:
    """Return this rank's parts; of parts that are on several devices only the first, if so."""
    return [
        (
            tuple(
                piece.indices(length)[:2]
                for piece, length in zip(shard.index, array.shape, strict=True)
            ),
            np.asarray(shard.data),
        )
        for shard in array.addressable_shards
        if not only_first or shard.replica_id == 0
    ]


def _count(box: Box) -> int:
    return math.prod(high - low for low, high in box)


def _check_kept(jax: Any, dtype: np.dtype[Any]) -> None:
    kept = jax.dtypes.canonicalize_dtype(dtype)
    if kept != dtype:
        raise UsageError(
            f"to_global got {dtype}, which JAX would make {kept}. Convert it first, with "
            f"x.astype({str(kept)!r}), or enable 64 bits with "
            "jax.config.update('jax_enable_x64', True)."
        )
