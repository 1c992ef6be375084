"""What is needed of CuPy: memory, streams, events and the clock of one device."""

import math
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import monotonic_ns, sleep
from typing import Any

from jupyter_dist.collective.calls.dtypes import is_extension
from jupyter_dist.cuda_driver import SUCCESS, EventDriver, RuntimeDriver, load_driver
from jupyter_dist.errors import CommunicatorError

DONE = SUCCESS

_LEGACY_STREAMS = (0, 1)
"""They cannot be captured into a graph."""
PER_THREAD_STREAM = 2
"""cudaStreamPerThread: a stream of the thread that uses it, and another one in each thread."""
_NO_TIMING = 2
"""cudaEventDisableTiming"""
_CLOCK_PATIENCE_NS = 2_000_000
_CLOCK_AGE_NS = 60_000_000_000
"""CUDA gives times as float32: after a minute they are good to some microseconds."""


class Cuda:
    """The current device of the thread that makes it, through CuPy."""

    def __init__(self, cupy: Any, driver: EventDriver | None = None) -> None:
        runtime = cupy.cuda.runtime
        self.cupy = cupy
        self.ndarray: type[Any] = cupy.ndarray
        self.device_id: int = runtime.getDevice()
        self.is_only = runtime.getDeviceCount() == 1
        """There is no other device on which an array could lie."""
        self.current_stream = cupy.cuda.get_current_stream
        self.record = runtime.eventRecord
        """Takes an event and a stream."""
        self._driver = driver = driver or RuntimeDriver(runtime, self.device_id)
        self.query = driver.query
        """Gives DONE, NOT_READY or what is wrong with the device."""
        self.use_device = driver.use_device
        """Makes it the current device of another thread as well."""
        self.relaxed = driver.relaxed
        """Within a block, no call of this thread invalidates a capture."""
        self._runtime = runtime
        self._idle_events: list[tuple[int, int]] = []
        self._bridge: Any = None
        self._order_event = 0
        self._clock_stream: Any = None
        self._spare_event = 0
        self._base = 0
        self._base_ns = 0

    # --- memory ------------------------------------------------------------------------------

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Make an array, also of the small floats that CuPy itself makes none of."""
        if not is_small_float(dtype):
            return self.cupy.empty(shape, dtype)
        memory = self.cupy.cuda.alloc(math.prod(shape) * dtype.itemsize)
        return self.ndarray(shape, dtype, memory)

    def view(self, pointer: int, given: Any, layout: tuple[Any, Any, Any]) -> Any:
        """View memory that `given` keeps alive; `layout` is shape, dtype and strides in bytes."""
        shape, dtype, strides = layout
        extent = dtype.itemsize + sum(
            (length - 1) * step for length, step in zip(shape, strides, strict=True)
        )
        cuda = self.cupy.cuda
        memory = cuda.UnownedMemory(pointer, max(extent, 0), given, self.device_id)
        return self.ndarray(shape, dtype, cuda.MemoryPointer(memory, 0), strides)

    def contiguous(self, array: Any) -> Any:
        """Copy an array so that it is C-contiguous."""
        copied = self.cupy.ascontiguousarray(self.as_known(array))
        return copied if copied.dtype == array.dtype else copied.view(array.dtype)

    def as_known(self, array: Any) -> Any:
        """View the small floats, for which CuPy has no kernels, as integers of their size."""
        if not is_small_float(array.dtype):
            return array
        return array.view(f"u{array.dtype.itemsize}")

    def copy(self, source: int, target: int, nbytes: int, stream: int) -> None:
        """Queue a copy between two pointers."""
        if nbytes and source != target:
            kind = self._runtime.memcpyDeviceToDevice
            self._runtime.memcpyAsync(target, source, nbytes, kind, stream)

    # --- streams -----------------------------------------------------------------------------

    def is_capturing(self, stream: int) -> bool:
        """Return whether this stream records what is queued into a graph, and does not run it."""
        return stream not in _LEGACY_STREAMS and bool(self._runtime.streamIsCapturing(stream))

    def stream_of(self, given: Any) -> Any:
        """Make a stream of CuPy out of one of any library, or of its pointer; raises TypeError."""
        cuda = self.cupy.cuda
        if isinstance(given, int):
            given = _Pointer(given)
        elif hasattr(given, "ptr") and hasattr(given, "__enter__"):
            return given
        elif hasattr(given, "cuda_stream"):  # torch, also before it knew the protocol
            given = _Pointer(given.cuda_stream)
        elif not hasattr(given, "__cuda_stream__"):
            raise TypeError(
                f"stream got {type(given).__name__}. Accepted: a cupy.cuda.Stream, a "
                "torch.cuda.Stream, anything else with __cuda_stream__, or None for CuPy's "
                "current stream."
            )
        if hasattr(cuda.Stream, "from_external"):
            return cuda.Stream.from_external(given)
        return cuda.ExternalStream(given.__cuda_stream__()[1])

    def on(self, stream: Any) -> AbstractContextManager[Any]:
        """Make a stream the current one for a block; None changes nothing."""
        return nullcontext() if stream is None else stream

    @contextmanager
    def across(self, stream: Any) -> Iterator[None]:
        """Make another stream the current one for a block, in order with what this one has."""
        here = self.current_stream()
        if stream.ptr == here.ptr:
            yield
            return
        self._wait(here, stream)
        try:
            with stream:
                yield
        finally:
            self._wait(stream, here)

    def bridge(self) -> Any:
        """Return a stream for what shall not be queued on the per-thread stream."""
        if self._bridge is None:
            self._bridge = self.cupy.cuda.Stream(non_blocking=True)
        return self._bridge

    def _wait(self, first: Any, then: Any) -> None:
        """Have what comes on one stream wait for what is on another."""
        runtime = self._runtime
        # One event does: a stream waits for what the event stood for at the time of the call.
        self._order_event = self._order_event or int(runtime.eventCreateWithFlags(_NO_TIMING))
        self.record(self._order_event, first.ptr)
        runtime.streamWaitEvent(then.ptr, self._order_event)

    # --- events and the clock ----------------------------------------------------------------

    def take_events(self) -> tuple[int, int]:
        """Return two events that nobody waits for."""
        try:
            return self._idle_events.pop()
        except IndexError:
            create = self._runtime.eventCreateWithFlags
            return int(create(0)), int(create(0))

    def give_back(self, begun: int, ended: int) -> None:
        """Take events that have been looked at."""
        self._idle_events.append((begun, ended))

    def release(self) -> None:
        """Let go of all events and streams; nobody may have any."""
        events = [self._order_event, self._spare_event, self._base]
        self._order_event = self._spare_event = self._base = 0
        self._bridge = self._clock_stream = None
        while self._idle_events:
            events += self._idle_events.pop()
        for event in filter(None, events):
            self._driver.destroy(event)

    def set_clock(self) -> None:
        """Find out what the device's clock shows now, unless that is known well enough."""
        if self._base and monotonic_ns() - self._base_ns < _CLOCK_AGE_NS:
            return
        if self._clock_stream is None:
            # One of its own: on others it would wait for what is queued there.
            self._clock_stream = self.cupy.cuda.Stream(non_blocking=True)
        event = self._spare_event
        self._spare_event = 0
        event = event or int(self._runtime.eventCreateWithFlags(0))
        start_ns = now_ns = monotonic_ns()
        with self.relaxed():
            self.record(event, self._clock_stream.ptr)
            while self.query(event) != DONE and now_ns - start_ns < _CLOCK_PATIENCE_NS:
                pause(0)
                now_ns = monotonic_ns()
        if now_ns - start_ns >= _CLOCK_PATIENCE_NS:
            self._spare_event = event  # the device is too busy to tell
            return
        self._spare_event = self._base
        self._base, self._base_ns = event, monotonic_ns()

    def time_of(self, event: int, now_ns: int) -> int:
        """Return when an event that is done has happened, in ns of CLOCK_MONOTONIC."""
        if not self._base:
            return now_ns
        elapsed_ms = self._driver.elapsed_ms(self._base, event)
        if elapsed_ms is None:
            return now_ns
        return min(now_ns, self._base_ns + int(elapsed_ms * 1e6))

    def explain(self, status: int) -> str:
        """Return what a result code of CUDA means."""
        return str(self._runtime.CUDARuntimeError(status))


def is_small_float(dtype: Any) -> bool:
    """Return whether this is a float that numpy does not have, and CuPy may not."""
    return dtype.kind == "V" or is_extension(dtype)


class _Pointer:
    """A stream of another library, by its pointer."""

    def __init__(self, pointer: int) -> None:
        self._pointer = pointer

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._pointer


def pause(seconds: float) -> None:
    """Let other threads and processes run; 0 goes on at once where none wants to."""
    if seconds > 0:
        sleep(seconds)
    else:
        # Not sleep(0): a sleep of any length takes Linux's timer slack too, some 50 µs.
        os.sched_yield()


def load_cuda() -> Cuda:
    """Load CuPy; raises CommunicatorError when it is not installed, or there is no device."""
    try:
        import cupy
    except ImportError as error:
        raise CommunicatorError(
            "arrays in device memory need CuPy, which is not installed here. Install it for your "
            "CUDA version (pip install cupy-cuda12x, or cupy-cuda13x)."
        ) from error
    try:
        runtime = cupy.cuda.runtime
        return Cuda(cupy, load_driver(runtime, runtime.getDevice()))
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise CommunicatorError(f"CuPy finds no CUDA device on this rank: {error}") from error
