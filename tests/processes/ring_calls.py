"""Collective calls of every kind, and what numpy on one machine makes of them."""

import os

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from jupyter_dist.collective.ring.algorithms import PIECE_BYTES, SMALL_BYTES
from jupyter_dist.collective.ring.memory.algorithms import TOGETHER_BYTES

from .ring_values import LAYOUTS, lay_out, make

# Examples differ from run to run, except where everybody must see a failure again.
settings.register_profile(
    "ring", deadline=None, database=None, print_blob=True, derandomize="CI" in os.environ
)
RING = settings.get_profile("ring")
UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "avg": np.add}
INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4")
FLOATS = ("float16", "float32", "float64", ">f8", "complex64", "complex128")
REDUCING = ("all_reduce", "reduce", "reduce_scatter")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
ROWED = ("reduce_scatter", "all_to_all")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
COLLECTIVES += ("gather", "scatter")
OUTS = {
    "all_reduce": ("beside", "the same"),
    "broadcast": ("beside", "the same"),
    "reduce": ("beside", "the same"),
    "all_to_all": ("beside", "the same"),
    "all_gather": ("beside", "around the input"),
    "gather": ("beside", "around the input"),
    "reduce_scatter": ("beside", "row of the input"),
    "scatter": ("beside", "row of the input"),
}


def counts(size, itemsize):
    """Numbers of elements at which the ring goes another way, and their neighbours."""
    edges = (SMALL_BYTES, SMALL_BYTES * size, TOGETHER_BYTES)
    edges += (PIECE_BYTES, PIECE_BYTES * size, PIECE_BYTES * size + SMALL_BYTES)
    return [edge // itemsize + more for edge in edges for more in (-1, 0, 1, size - 1)]


@st.composite
def shapes(draw, size, dtype, share=1):
    """Small ones with any number of axes, and such as go in pieces; of `share` rows each."""
    is_large = draw(st.integers(0, 9)) == 0
    if not is_large:
        return tuple(draw(st.lists(st.integers(0, 7), max_size=4)))
    return (draw(st.sampled_from(counts(size, np.dtype(dtype).itemsize))) // share,)


@st.composite
def collectives(draw, size, kind="exact", names=COLLECTIVES):
    """One call, and what each rank gives to it."""
    name = draw(st.sampled_from(names))
    op = draw(st.sampled_from(sorted(UFUNCS))) if name in REDUCING else None
    dtypes = FLOATS if op == "avg" or kind == "any" else INTEGERS + FLOATS
    if op == "prod" and kind == "exact":
        # Where the factors are put into brackets shows in the signs of complex zeros.
        dtypes = tuple(dtype for dtype in dtypes if not dtype.startswith("complex"))
    dtype = draw(st.sampled_from(dtypes))
    has_rows = name in (*ROWED, "all_gather", "gather", "scatter")
    return {
        "name": name,
        "op": op,
        "root": draw(st.integers(0, size - 1)) if name in ROOTED else None,
        "dtype": dtype,
        "shape": draw(shapes(size, dtype, size if has_rows else 1)),
        "seed": draw(st.integers(0, 2**32)),
        "kind": kind,
        "layouts": [draw(st.sampled_from(LAYOUTS)) for _rank in range(size)],
        "outs": [draw(st.sampled_from((None, *OUTS[name]))) for _rank in range(size)],
    }


def step_of(call, rank, size, on="world"):
    """What this rank is told to do."""
    name, shape = call["name"], call["shape"]
    rows = name in ROWED or (name == "scatter" and rank == call["root"])
    arguments = {word: call[word] for word in ("op", "root") if call[word] is not None}
    way, layout = call["outs"][rank], call["layouts"][rank]
    if name in ("reduce", "gather") and rank != call["root"]:
        way = None
    if way == "row of the input" and not rows:
        way = "the same"
    if way not in (None, "beside"):
        layout = "plain"
    stacks = name in ("all_gather", "gather") or (name == "all_to_all")
    return {
        "do": name,
        "on": on,
        "array": (
            (call["seed"], rank),
            (size, *shape) if rows else shape,
            call["dtype"],
            call["kind"],
        ),
        "layout": layout,
        "out": way and (way, (size, *shape) if stacks else shape),
        "arguments": arguments,
    }


def given_by(step):
    """The values that a rank gives."""
    return np.asarray(lay_out(make(*step["array"]), step["layout"]))


def stacked(arrays):
    """One array of all; numpy.stack would forget the byte order."""
    return np.stack(arrays).astype(arrays[0].dtype)


def reduced(stack, op):
    """What numpy makes of a stack of arrays; on bool a logical or, or and."""
    if stack.dtype.kind == "b":
        return stack.any(axis=0) if op in ("sum", "max") else stack.all(axis=0)
    native = stack.astype(stack.dtype.newbyteorder("="))
    result = np.asarray(UFUNCS[op].reduce(native, axis=0, dtype=native.dtype), order="C")
    if op == "avg":
        # Complex numbers by their parts: only so every number is rounded once.
        parts = result.reshape(-1).view(result.real.dtype)
        parts /= parts.dtype.type(len(stack))
    return np.asarray(result, stack.dtype)


def expected(call, inputs, rank):
    """What this rank gets."""
    name, root = call["name"], call["root"]
    if name in ("reduce", "gather") and rank != root:
        return None
    match name:
        case "all_reduce" | "reduce":
            return reduced(stacked(inputs), call["op"])
        case "reduce_scatter":
            return reduced(stacked(inputs), call["op"])[rank, ...]
        case "broadcast":
            return inputs[root]
        case "scatter":
            return inputs[root][rank, ...]
        case "all_gather" | "gather":
            return stacked(inputs)
        case _:
            return stacked([rows[rank, ...] for rows in inputs])


def same(found, wanted):
    """Assert that both are the same arrays to the last bit."""
    if wanted is None:
        assert found is None
        return
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if found.tobytes() != wanted.tobytes():
        np.testing.assert_array_equal(found, wanted)
        raise AssertionError(f"equal, but not to the last bit: {found!r}, {wanted!r}")


def check(answer, wanted):
    assert "raised" not in answer, answer
    same(answer["value"], wanted)
    assert answer["is_kept"], "the input was changed"
    assert answer["is_put"], "the result is not what was given to hold it"
