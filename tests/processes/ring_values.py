"""Arrays that a test and its ranks make alike, each for itself; and what a rank must close."""

import contextlib
import os

import numpy as np

FACTORS = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)
"""A handful of these has the same sum and product in any order, in every type of float."""
SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-300, 3e38, 65504.0)
LAYOUTS = ("plain", "strided", "transposed", "reversed", "read-only", "repeated")
"""How an array lies in memory; "repeated" is a read-only view with steps of 0 bytes."""


def make(seed, shape, dtype, kind="exact"):
    """Make an array; reductions of a few exact ones do not depend on their order."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(seed)
    if dtype.kind == "b":
        return np.asarray(random.integers(0, 2, shape)).astype(dtype)
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        native = dtype.newbyteorder("=")
        return np.asarray(random.integers(low, high, shape, native, endpoint=True)).astype(dtype)
    if dtype.kind == "c":
        real, imaginary = (_floats(random, shape, kind) for _part in range(2))
        return np.asarray(real + 1j * imaginary).astype(dtype)
    return np.asarray(_floats(random, shape, kind)).astype(dtype)


def _floats(random, shape, kind):
    if kind == "exact":
        return random.choice(FACTORS, shape)
    numbers = random.standard_normal(shape) * 10.0 ** random.integers(-3, 4, shape)
    return np.where(random.random(shape) < 0.1, random.choice(SPECIAL, shape), numbers)


def lay_out(array, layout):
    """Give the same values in another layout; of "repeated" only the first one counts."""
    if layout == "strided":
        room = np.zeros([2 * length + 1 for length in array.shape], array.dtype)
        view = room[(..., *[slice(1, None, 2)] * array.ndim)]
        view[...] = array
        return view
    if layout == "transposed":
        return np.ascontiguousarray(array.T).T.reshape(array.shape)
    if layout == "reversed":
        return array[(..., *[slice(None, None, -1)] * array.ndim)].copy()[
            (..., *[slice(None, None, -1)] * array.ndim)
        ]
    if layout == "read-only":
        array.flags.writeable = False
    if layout == "repeated" and array.size:
        return np.broadcast_to(array.reshape(-1)[:1].reshape(()), array.shape)
    return array


def open_sockets():
    """How many sockets this process has, and things without a name that ranks share."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
    return sum(link.startswith(("socket:", "anon_inode:", "/memfd:")) for link in links)
