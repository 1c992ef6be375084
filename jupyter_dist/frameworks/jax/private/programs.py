"""What JAX's private executables say of the programs that they hold."""

import re
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from jupyter_dist.frameworks.jax.private.fingerprint import (
    find_groups,
    fingerprint,
    has_collectives,
)

_MOST_ARGUMENTS = 3
"""So many are written out."""
_BROADCAST_PROGRAM = "jit(_psum)"
_OLD_PMAP = "parallel computation"
"""What pmap programs are called before JAX 0.8."""
_REPLICAS = re.compile(r"^HloModule .*\breplica_count=(\d+)")


class Program:
    """A program of several processes, as it was compiled."""

    def __init__(self, executable: Any, devices: Sequence[Any], args: Sequence[Any]) -> None:
        import jax

        self.name = _name_of(executable)
        self.processes = tuple(sorted({device.process_index for device in devices}))
        avals = [jax.typeof(arg) for arg in args]  # a Python float is a float32
        written = [_write(aval) for aval in avals[:_MOST_ARGUMENTS]]
        self.arguments = ", ".join(written + ["…"] * (len(avals) > _MOST_ARGUMENTS))
        """As `float32[8,4], float32[]`."""
        first = _first_spread(args, avals, executable)
        self.dtype = str(getattr(first, "dtype", ""))
        self.shape = ",".join(map(str, getattr(first, "shape", ())))
        itemsize = getattr(getattr(first, "dtype", None), "itemsize", 0)
        self.nbytes = int(itemsize * getattr(first, "size", 0))
        text = _print(executable.xla_executable)
        ids = tuple(device.id for device in devices)
        self.fingerprint = fingerprint(text, ids)
        """What it computes; equal on all ranks that have compiled the same."""
        self.client = getattr(devices[0], "client", None)
        """To which its devices belong."""
        groups = find_groups(text) or {self.fingerprint}
        self.cliques = frozenset((ids, group) for group in groups)
        """Which devices meet; they find each other when they do so first."""
        self.is_collective = has_collectives(text) or not text
        """Its devices meet: all must run it."""


def is_in_broadcast(program: Program) -> bool:
    """Return whether it is launched by broadcast_one_to_all, whose source may be elsewhere."""
    if program.name != _BROADCAST_PROGRAM:
        return False
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  (inspect's is slower)
    while frame is not None:
        if frame.f_code.co_name == "broadcast_one_to_all":
            return True
        frame = frame.f_back
    return False


def devices_of(executable: Any) -> Sequence[Any]:
    """Return the devices of a program in their order, as far as its inputs and outputs tell."""
    most: Sequence[Any] = ()
    handlers = (executable.in_handler.in_shardings, executable.out_handler.out_shardings)
    for sharding in (each for shardings in handlers for each in shardings):
        devices: Any = getattr(sharding, "_device_assignment", None)
        if devices is None:
            devices = getattr(sharding, "device_set", ())
        if len(devices) > len(most):
            most = tuple(devices)
    return _devices_of_old_pmap(executable) if executable.name == _OLD_PMAP else most


def _devices_of_old_pmap(executable: Any) -> Sequence[Any]:
    """Return the devices of such a program, whose inputs and outputs tell of our own only."""
    found = _REPLICAS.search(_print(executable.xla_executable))
    devices = executable.xla_executable.local_devices()
    is_wide = found is not None and int(found[1]) > len(devices)
    return tuple(executable.backend.devices()) if is_wide else tuple(devices)


def _name_of(executable: Any) -> str:
    name = str(executable.name)
    if name != _OLD_PMAP:
        return name
    function = executable.xla_executable.hlo_modules()[0].name.removeprefix("pmap_")
    return f"pmap({function})"


def _write(aval: Any) -> str:
    return f"{getattr(aval, 'dtype', '')}[{','.join(map(str, getattr(aval, 'shape', ())))}]"


def _first_spread(args: Sequence[Any], avals: Sequence[Any], executable: Any) -> Any:
    """Return the first input of which each rank has a part, else the first output."""
    for arg, aval in zip(args, avals, strict=True):
        sharding = getattr(arg, "sharding", None)
        if sharding is not None and not sharding.is_fully_replicated:
            return aval
    return next(iter(executable.out_handler.out_avals), None)


def _print(compiled: Any) -> str:
    """Write a program down, constants in full, without what differs from machine to machine.

    Empty where that is not possible.
    """
    try:
        modules = compiled.hlo_modules()
    except RuntimeError:  # it comes from a cache that has not kept its text
        return ""
    texts = []
    for module in modules:
        options_type = getattr(sys.modules.get(type(module).__module__), "HloPrintOptions", None)
        if options_type is None:
            texts.append(module.to_string())
            continue
        options = options_type()
        options.print_large_constants = True
        options.print_metadata = False
        options.print_backend_config = False
        texts.append(module.to_string(options))
    return "\n".join(texts)
