"""Where arrays lie in a part file, which is one of safetensors, and how their bytes are seen."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from jupyter_dist.checkpoint.format.manifest import Tensor
from jupyter_dist.checkpoint.format.number_types import array_bytes, item_bytes, safetensors_view

Buffer = NDArray[Any] | bytes | bytearray | memoryview


def lay_out(tensors: Sequence[Tensor]) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """Return the header, and where each array begins and ends in the file.

    Types with large numbers come first, so that every array begins at a multiple of its size.
    """
    entries: dict[str, dict[str, object]] = {}
    relative: dict[str, tuple[int, int]] = {}
    end = 0
    for tensor in sorted(tensors, key=lambda one: -item_bytes(one.dtype)):
        if tensor.key in relative or tensor.key == "__metadata__":
            raise ValueError(f"{tensor.key!r} cannot name an array here: it is taken")
        start, end = end, end + array_bytes(tensor.dtype, tensor.shape)
        name, shape = safetensors_view(tensor.dtype, tensor.shape)
        relative[tensor.key] = (start, end)
        entries[tensor.key] = {"dtype": name, "shape": shape, "data_offsets": (start, end)}
    text = msgspec.json.encode(entries)
    text += b" " * (-len(text) % 8)
    header = len(text).to_bytes(8, "little") + text
    begin = len(header)
    return header, {key: (begin + start, begin + stop) for key, (start, stop) in relative.items()}


def bytes_of(data: Buffer) -> memoryview:
    """View data as plain bytes, without copying it; ValueError if they do not lie in a row."""
    if isinstance(data, np.ndarray):
        if not data.flags.c_contiguous or not data.dtype.isnative or data.dtype.hasobject:
            raise ValueError(
                f"an array of {data.dtype} with strides {data.strides} came. Accepted: contiguous "
                "ones (numpy.ascontiguousarray) of plain numbers in the machine's byte order."
            )
        return data.reshape(-1).view(np.uint8).data
    view = memoryview(data)
    return view.cast("B") if view.nbytes else memoryview(b"")
