"""A device without a GPU: memory that is the host's, streams that are threads, CuPy's names.

One FakeCuPy is what one process would see. Work that is queued on a stream runs later, on the
stream's thread, so that results which are used too early are wrong here as well.
"""

# ruff: noqa: N802, N815  (the names are CUDA's and CuPy's)
import ctypes
import itertools
import queue
import threading
import time
import weakref
from functools import partial
from types import SimpleNamespace

import numpy as np

NOT_READY = 600
PER_THREAD = 2
GARBAGE = 0xAB
_pointers = itertools.count(1000)


class Memory:
    """Bytes with an address; freed, as by CuPy's pool, for the stream they were asked for on."""

    def __init__(self, nbytes, cupy):
        self._stream = cupy.stream
        # Filled, so that nobody relies on zeros.
        self._bytes = np.full(max(nbytes, 1) + 64, GARBAGE, np.uint8)
        self.ptr = (self._bytes.ctypes.data + 63) // 64 * 64 if nbytes else 0

    def __del__(self):
        freed = self._bytes
        self._stream.put(lambda: freed.fill(GARBAGE))


class MemoryPointer:
    def __init__(self, memory, offset, device_id=0):
        self.memory = memory
        self.ptr = memory.ptr + offset
        self.device_id = getattr(memory, "device_id", device_id)


class UnownedMemory:
    def __init__(self, ptr, size, owner, device_id=-1):
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


def run_all(works):
    while (work := works.get()) is not None:
        work()
        del work


class FakeStream:
    """Runs what is queued, in order, on a thread of its own."""

    def __init__(self, cupy, ptr):
        self.ptr = ptr
        self.device_id = 0
        self.is_capturing = False
        self._cupy = cupy
        self._queue = queue.SimpleQueue()
        self._before = []
        # Which does not keep the stream: one that nobody has ends when its work is done.
        self.thread = threading.Thread(
            target=run_all, args=(self._queue,), name="fake stream", daemon=True
        )
        self.thread.start()

    def __del__(self):
        self._queue.put(None)

    def put(self, work):
        self._queue.put(work)

    def end(self):
        self._queue.put(None)
        self.thread.join(5)
        assert not self.thread.is_alive(), "a stream hangs"

    def synchronize(self):
        done = threading.Event()
        self.put(done.set)
        assert done.wait(20), "a stream hangs"

    def __enter__(self):
        self._before.append(self._cupy.stream)
        self._cupy.stream = self
        return self

    def __exit__(self, *_):
        self._cupy.stream = self._before.pop()

    def __cuda_stream__(self):
        return 0, self.ptr


class FakeRuntimeError(RuntimeError):
    def __init__(self, status):
        self.status = status
        super().__init__(f"cudaError{status}")


class FakeRuntime:
    """The part of CUDA's runtime that is called through CuPy."""

    CUDARuntimeError = FakeRuntimeError
    memcpyDeviceToDevice = 3

    def __init__(self, cupy):
        self.device = 0
        self.device_count = 1
        self.fault = 0
        """Result code of every query from now on."""
        self.driver_lock = threading.Lock()
        """Of the context: a call that hangs in the driver has it."""
        self.misuse = []
        self.has_context = threading.local()
        self._cupy = cupy
        self._events = {}
        self._recorded = {}
        """What streams would wait for: the last record of each event."""
        self._numbers = itertools.count(1)

    def getDevice(self):
        return self.device

    def getDeviceCount(self):
        return self.device_count

    def setDevice(self, device):
        assert device == self.device
        self._wait_with_the_interpreter("setDevice")
        self.has_context.here = True

    def free(self, _pointer):
        """Wait for the device, as cudaFree may, with the context locked; Python goes on."""
        with self.driver_lock:
            self._cupy.stream.synchronize()

    def _wait_with_the_interpreter(self, name):
        """CuPy does not let other threads run in these, so that nothing would end the wait."""
        if self.driver_lock.locked():
            self.misuse.append(f"{name} holds the interpreter while the driver hangs")
        with self.driver_lock:
            pass

    def eventCreateWithFlags(self, flags):
        event = next(self._numbers)
        self._events[event] = (0, time.monotonic_ns())
        return event

    def eventDestroy(self, event):
        del self._events[event]
        self._recorded.pop(event, None)

    def eventRecord(self, event, stream):
        self.has_context.here = True
        number = self._events[event][0] + 1
        self._events[event] = (number, None)
        happened = self._recorded[event] = threading.Event()

        def happen():
            happened.set()
            if event in self._events and self._events[event][0] == number:
                self._events[event] = (number, time.monotonic_ns())

        self._cupy.find_stream(stream).put(happen)

    def eventQuery(self, event):
        self._wait_with_the_interpreter("eventQuery")
        self.note_unsafe("eventQuery")
        return self.status_of(event)

    def note_unsafe(self, name):
        """A call that is not for threads in the default mode while any captures globally."""
        if self._cupy.is_capturing():
            self.misuse.append(f"{name} invalidates a capture")

    def status_of(self, event):
        return self.fault or (NOT_READY if self._events[event][1] is None else 0)

    def eventElapsedTime(self, start, end):
        begin_ns, end_ns = self._events[start][1], self._events[end][1]
        if begin_ns is None or end_ns is None:
            raise FakeRuntimeError(NOT_READY)
        return float(np.float32((end_ns - begin_ns) / 1e6))

    def streamWaitEvent(self, stream, event):
        self._cupy.find_stream(stream).put(partial(self._recorded[event].wait, 20))

    def streamIsCapturing(self, stream):
        return self._cupy.find_stream(stream).is_capturing

    def memcpyAsync(self, target, source, size, kind, stream):
        assert kind == 3
        self._cupy.find_stream(stream).put(lambda: ctypes.memmove(target, source, size))


class FakeArrayBase:
    """Has what a cupy.ndarray has, as far as it is used. `cupy` is set in each subclass."""

    cupy = None

    def __init__(self, shape, dtype=float, memptr=None, strides=None):
        shape = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
        self._dtype = np.dtype(dtype)
        nbytes = int(np.prod(shape)) * self._dtype.itemsize
        if memptr is None:
            if self._dtype.name.startswith("float8"):
                raise ValueError(f"Unsupported dtype {dtype}")
            memptr = MemoryPointer(Memory(nbytes, self.cupy), 0, self.cupy.cuda.runtime.device)
        self.data = memptr
        self.shape = shape
        if strides is None:
            strides = np.empty(shape, np.dtype(f"V{self._dtype.itemsize}")).strides
        self.strides = tuple(strides)

    @property
    def dtype(self):
        return self._dtype

    @property
    def host(self):
        """The memory itself, whatever is still queued."""
        if not self.size:
            return np.empty(self.shape, self._dtype)
        extent = self._dtype.itemsize + sum(
            (length - 1) * step for length, step in zip(self.shape, self.strides, strict=True)
        )
        buffer = (ctypes.c_char * extent).from_address(self.data.ptr)
        return np.ndarray(self.shape, self._dtype, buffer, strides=self.strides)

    @property
    def flags(self):
        return self.host.flags

    @property
    def size(self):
        return int(np.prod(self.shape))

    @property
    def nbytes(self):
        return self.size * self._dtype.itemsize

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self._dtype.str,
            "data": (self.data.ptr, False),
            "version": 3,
            "strides": self.strides,
        }

    def view(self, dtype):
        dtype = np.dtype(dtype)
        assert dtype.itemsize == self._dtype.itemsize
        return type(self)(self.shape, dtype, self.data, self.strides)

    def reshape(self, *shape):
        assert self.flags.c_contiguous, "it would copy"
        shape = np.empty(self.shape, bool).reshape(*shape).shape
        return type(self)(shape, self._dtype, self.data)

    def astype(self, dtype):
        made = self.cupy.empty(self.shape, dtype)
        self.cupy.stream.put(lambda: made.host.__setitem__(..., self.host.astype(dtype)))
        return made

    def __getitem__(self, index):
        if isinstance(index, slice):
            assert (index.start, index.step, len(self.shape)) == (None, None, 1)
            length = min(index.stop, self.shape[0])
            return type(self)((length,), self._dtype, self.data, self.strides)
        pointer = MemoryPointer(self.data, index * self.strides[0])
        pointer.device_id = self.data.device_id
        return type(self)(self.shape[1:], self._dtype, pointer, self.strides[1:])

    @property
    def T(self):
        return type(self)(self.shape[::-1], self._dtype, self.data, self.strides[::-1])

    def get(self):
        """Copy to the host once the current stream has come so far."""
        self.cupy.stream.synchronize()
        return self.host.copy()


class FakeCuPy:
    """One process's CuPy."""

    def __init__(self):
        null = self._null = FakeStream(self, 0)
        self._streams = weakref.WeakValueDictionary({0: null})
        self._per_thread = threading.local()
        self._of_threads = []
        self.stream = null
        self.ndarray = type("ndarray", (FakeArrayBase,), {"cupy": self})
        self.cuda = SimpleNamespace(
            runtime=FakeRuntime(self),
            get_current_stream=lambda: self.stream,
            Stream=self._make_stream,
            ExternalStream=self.find_stream,
            alloc=lambda nbytes: MemoryPointer(Memory(nbytes, self), 0),
            MemoryPointer=MemoryPointer,
            UnownedMemory=UnownedMemory,
        )

    def _make_stream(self, non_blocking=False):
        stream = FakeStream(self, next(_pointers))
        self._streams[stream.ptr] = stream
        return stream

    def find_stream(self, ptr):
        if ptr != PER_THREAD:
            return self._streams[ptr]
        if not hasattr(self._per_thread, "stream"):
            self._per_thread.stream = FakeStream(self, PER_THREAD)
            self._of_threads.append(self._per_thread.stream)
        return self._per_thread.stream

    def is_capturing(self):
        return any(stream.is_capturing for stream in list(self._streams.values()))

    def end(self):
        for stream in (*list(self._streams.values()), *self._of_threads):
            stream.end()

    def empty(self, shape, dtype=float):
        return self.ndarray(shape, dtype)

    def asarray(self, given):
        """Copy from the host, or view what has __cuda_array_interface__."""
        if isinstance(given, self.ndarray):
            return given
        if hasattr(given, "__cuda_array_interface__"):
            told = given.__cuda_array_interface__
            memory = UnownedMemory(told["data"][0], 0, given, 0)
            return self.ndarray(
                told["shape"], told["typestr"], MemoryPointer(memory, 0), told["strides"]
            )
        given = np.asarray(given)
        memory = MemoryPointer(Memory(given.nbytes, self), 0, self.cuda.runtime.device)
        made = self.ndarray(given.shape, given.dtype, memory)
        made.host[...] = given
        return made

    def ascontiguousarray(self, array):
        assert not array.dtype.name.startswith("float8"), "CuPy has no kernel for it"
        made = self.empty(array.shape, array.dtype)
        self.copyto(made, array)
        return made

    def copyto(self, target, source, casting="same_kind"):
        assert casting == "unsafe" or target.dtype == source.dtype
        assert not target.dtype.name.startswith("float8"), "CuPy has no kernel for it"
        self.stream.put(lambda: np.copyto(target.host, source.host, casting=casting))
