"""CuPy's names for streams, events and memory, on the stand-in instead of a device.

Arrays are CuPy's own, in memory of the host. CuPy has no kernels without a device: cells make
arrays by `put` and read them by `get`.
"""

# ruff: noqa: N802, N815  (the names are CUDA's and CuPy's)
import ctypes
import os
from pathlib import Path

import numpy as np

NOT_READY = 600
FOLDER = Path(os.environ["NCCL_STAND_IN"])
# By their names: whoever asks for libnccl.so.2 or libcuda.so.1 from now on gets these.
_library = ctypes.CDLL(str(FOLDER / "libnccl.so.2"))
_driver = ctypes.CDLL(str(FOLDER / "libcuda.so.1"))
# What CuPy calls with the interpreter locked: then other threads stand still as well.
_locked = ctypes.PyDLL(str(FOLDER / "libnccl.so.2"))
_pointer, _size = ctypes.c_void_p, ctypes.c_size_t
_library.stand_in_alloc.restype = _pointer


class RuntimeFailure(RuntimeError):
    """As CuPy's CUDARuntimeError."""

    def __init__(self, status):
        self.status = status
        super().__init__(f"cudaError {status}")


def _checked(status):
    if status:
        raise RuntimeFailure(status)


class Runtime:
    """cupy.cuda.runtime, as far as it is used."""

    CUDARuntimeError = RuntimeFailure
    memcpyDeviceToDevice = 3

    def getDevice(self):
        return 0

    def getDeviceCount(self):
        return 1

    def setDevice(self, device):
        _checked(_locked.cudaSetDevice(device))

    def eventCreateWithFlags(self, flags):
        made = _pointer()
        _checked(_library.cudaEventCreateWithFlags(ctypes.byref(made), flags))
        return made.value

    def eventDestroy(self, event):
        _checked(_library.cudaEventDestroy(_pointer(event)))

    def eventRecord(self, event, stream):
        _checked(_library.cudaEventRecord(_pointer(event), _pointer(stream)))

    def eventQuery(self, event):
        status = _locked.cudaEventQuery(_pointer(event))
        if status not in {0, NOT_READY}:
            raise RuntimeFailure(status)
        return status

    def eventElapsedTime(self, start, end):
        elapsed_ms = ctypes.c_float()
        _checked(
            _library.cudaEventElapsedTime(ctypes.byref(elapsed_ms), _pointer(start), _pointer(end))
        )
        return elapsed_ms.value

    def streamIsCapturing(self, stream):
        return False

    def memcpyAsync(self, target, source, size, kind, stream):
        _checked(
            _library.cudaMemcpyAsync(
                _pointer(target), _pointer(source), _size(size), kind, _pointer(stream)
            )
        )

    def free(self, memory):
        """Wait for the device, with the driver locked and the interpreter not."""
        _checked(_library.cudaFree(_pointer(memory)))


class Stream:
    """cupy.cuda.Stream; `ptr` 0 is the default one."""

    current = None

    def __init__(self, null=False, non_blocking=False, ptr=None):
        self._is_own = not null and ptr is None
        self._before = []
        self.ptr = ptr or 0
        if self._is_own:
            made = _pointer()
            _checked(_library.cudaStreamCreateWithFlags(ctypes.byref(made), int(non_blocking)))
            self.ptr = made.value

    @classmethod
    def from_external(cls, given):
        return cls(ptr=given.__cuda_stream__()[1])

    def __del__(self):
        if self._is_own:
            _library.cudaStreamDestroy(_pointer(self.ptr))

    def __enter__(self):
        self._before.append(Stream.current)
        Stream.current = self
        return self

    def __exit__(self, *_):
        Stream.current = self._before.pop()

    def __cuda_stream__(self):
        return 0, self.ptr

    def synchronize(self):
        _checked(_library.cudaStreamSynchronize(_pointer(self.ptr)))


Stream.current = Stream(null=True)


class Block:
    """Memory of the pool, which goes back to it in the order of the stream."""

    def __init__(self, nbytes):
        self.ptr = _library.stand_in_alloc(_size(nbytes))
        self._stream = Stream.current

    def __del__(self):
        _library.stand_in_free(_pointer(self.ptr), _pointer(self._stream.ptr))


def install(cupy):
    """Put all this in the place of CuPy's own."""
    cuda = cupy.cuda

    def alloc(nbytes):
        block = Block(nbytes)
        return cuda.MemoryPointer(cuda.UnownedMemory(block.ptr, nbytes, block, 0), 0)

    cuda.runtime = Runtime()
    cuda.Stream = Stream
    cuda.get_current_stream = lambda: Stream.current
    cuda.set_allocator(alloc)


def view(array):
    """View the memory of an array of CuPy as numpy's, whatever is still queued."""
    buffer = (ctypes.c_char * max(array.nbytes, 1)).from_address(array.data.ptr)
    return np.ndarray(array.shape, array.dtype, buffer)


def put(values):
    """Make an array of CuPy."""
    import cupy

    values = np.asarray(values, order="C")
    made = cupy.ndarray(values.shape, values.dtype, cupy.cuda.alloc(values.nbytes))
    view(made)[...] = values
    return made


def get(array):
    """Read an array of CuPy, when the stream has got there."""
    Stream.current.synchronize()
    return view(array).copy()


array, asnumpy = put, get
"""As CuPy calls them."""
