"""Makes arrays of each library on its device, and compares them bit by bit after a restore."""

import numpy as np
from gpu_arrays import on_host, xp
from gpu_libraries import from_torch, to_jax, to_torch

NAMES = ["f4", "i8", "u1", "c8"]


def make(rank, torch=True, jax=True):
    """Make one array of each library and type, different on each rank."""
    import ml_dtypes

    rng = np.random.default_rng(rank)
    hosts = {name: rng.integers(0, 100, (3, 5)).astype(name) for name in NAMES}
    made = {f"cupy {name}": xp.asarray(host) for name, host in hosts.items()}
    hosts["bf16"] = rng.integers(0, 100, (3, 5)).astype(ml_dtypes.bfloat16)
    if torch:
        made.update({f"torch {name}": to_torch(host) for name, host in hosts.items()})
    if jax:
        # Without 64 bits JAX has no int64.
        made.update({f"jax {name}": to_jax(hosts[name]) for name in hosts if name != "i8"})
    return made


def bits(array):
    """Return type and bytes, of whatever library."""
    if isinstance(array, xp.ndarray):
        host = on_host(array)
    else:
        host = from_torch(array) if hasattr(array, "is_contiguous") else np.asarray(array)
    return str(host.dtype), np.ascontiguousarray(host).tobytes()


def differing(found, expected):
    """Name what differs in type or bits."""
    return [
        name
        for name in expected
        if type(found[name]) is not type(expected[name])
        or bits(found[name]) != bits(expected[name])
    ]


def devices(arrays):
    """Say where they lie."""
    where = set()
    for array in arrays.values():
        device = getattr(array, "device", "cpu")
        where.add(str(getattr(device, "type", None) or getattr(device, "platform", device)))
    return sorted(where)
