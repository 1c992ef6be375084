"""CUDA's driver by ctypes, for threads that look at what a device does.

CuPy keeps the interpreter locked while it asks for an event or sets the device (before version 14
also while it reads times and destroys events). When another thread is in a driver call that waits
for a kernel which hangs, all Python would stand still. Calls by ctypes let other threads run; and
in relaxed mode they do not invalidate what another thread captures into a CUDA graph.
"""

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

SUCCESS, NOT_READY = 0, 600
"""The same numbers in the driver (CUresult) and in the runtime (cudaError_t)."""
_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED"""
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "cuInit": (ctypes.c_uint,),
    "cuDeviceGet": (ctypes.c_void_p, ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (ctypes.c_void_p, ctypes.c_int),
    "cuCtxSetCurrent": (ctypes.c_void_p,),
    "cuEventQuery": (ctypes.c_void_p,),
    "cuEventElapsedTime": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    "cuEventDestroy_v2": (ctypes.c_void_p,),
    "cuThreadExchangeStreamCaptureMode": (ctypes.c_void_p,),
}


class EventDriver(Protocol):
    """What looking at events needs. An event is its handle, in the driver as in the runtime."""

    def use_device(self) -> None:
        """Make the device the current one of this thread."""

    def relaxed(self) -> AbstractContextManager[None]:
        """Within a block, invalidate no capture by calls of this thread, which has a device."""

    def query(self, event: int) -> int:
        """Return SUCCESS, NOT_READY or what is wrong with the device."""

    def elapsed_ms(self, start: int, end: int) -> float | None:
        """Return the time between two events; None when it is not known."""

    def destroy(self, event: int) -> None:
        """Let go of an event."""


class LoadedDriver:
    """One device, through libcuda."""

    def __init__(self, library: Any, device_id: int) -> None:
        self._library = library
        device, context = ctypes.c_int(), ctypes.c_void_p()
        for status in (
            library.cuInit(0),
            library.cuDeviceGet(ctypes.byref(device), device_id),
            # Of the context that CUDA's runtime uses too; the process keeps it to its end.
            library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device.value),
        ):
            if status != SUCCESS:
                raise OSError(f"the CUDA driver refuses device {device_id}: code {status}")
        self._context = context
        self.query = library.cuEventQuery

    def use_device(self) -> None:
        """Make the device the current one of this thread."""
        self._library.cuCtxSetCurrent(self._context)

    @contextmanager
    def relaxed(self) -> Iterator[None]:
        """Within a block, invalidate no capture by calls of this thread, which has a device."""
        mode = ctypes.c_int(_RELAXED)
        exchange = self._library.cuThreadExchangeStreamCaptureMode
        exchange(ctypes.byref(mode))
        try:
            yield
        finally:
            exchange(ctypes.byref(mode))

    def elapsed_ms(self, start: int, end: int) -> float | None:
        """Return the time between two events; None when it is not known."""
        elapsed = ctypes.c_float()
        status = self._library.cuEventElapsedTime(ctypes.byref(elapsed), start, end)
        return elapsed.value if status == SUCCESS else None

    def destroy(self, event: int) -> None:
        """Let go of an event."""
        self._library.cuEventDestroy_v2(event)


class RuntimeDriver:
    """The same through CuPy's runtime, where there is no libcuda to load."""

    def __init__(self, runtime: Any, device_id: int) -> None:
        self._runtime = runtime
        self._device_id = device_id
        self.query = runtime.eventQuery

    def use_device(self) -> None:
        """Make the device the current one of this thread."""
        self._runtime.setDevice(self._device_id)

    def relaxed(self) -> AbstractContextManager[None]:
        """Do nothing: the runtime's modes are not to be had."""
        return nullcontext()

    def elapsed_ms(self, start: int, end: int) -> float | None:
        """Return the time between two events; None when it is not known."""
        try:
            return float(self._runtime.eventElapsedTime(start, end))
        except self._runtime.CUDARuntimeError:
            return None

    def destroy(self, event: int) -> None:
        """Let go of an event."""
        self._runtime.eventDestroy(event)


def load_driver(runtime: Any, device_id: int) -> EventDriver:
    """Load libcuda for a device, whose ordinal is the runtime's; or else go through `runtime`."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
        for name, arguments in _ARGUMENTS.items():
            getattr(library, name).argtypes = arguments
        return LoadedDriver(library, device_id)
    except (OSError, AttributeError):  # no library, an older one, or not this device
        return RuntimeDriver(runtime, device_id)
