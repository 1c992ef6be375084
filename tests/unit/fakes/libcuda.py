"""libcuda.so.1 in front of a device without a GPU, as far as it is called by ctypes."""

# ruff: noqa: N802  (the names are CUDA's)
import threading

from fakes.nccl_device import FakeRuntimeError

RELAXED = 2
INVALID_CONTEXT = 201
CONTEXT = 4242


class FakeLibcuda:
    """What one process would have loaded. Waits for the driver let other threads run."""

    def __init__(self, cupy):
        self._runtime = cupy.cuda.runtime
        self._mode = threading.local()
        self.lookers = set()
        """Names of the threads that have asked for events."""

    def cuInit(self, flags):
        return 0

    def cuDeviceGet(self, device, ordinal):
        device._obj.value = ordinal
        return 0

    def cuDevicePrimaryCtxRetain(self, context, device):
        context._obj.value = CONTEXT
        return 0

    def cuCtxSetCurrent(self, context):
        assert context.value == CONTEXT
        self._runtime.has_context.here = True
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode):
        if not self._has_context():
            return INVALID_CONTEXT
        before = getattr(self._mode, "here", 0)
        self._mode.here, mode._obj.value = mode._obj.value, before
        return 0

    def cuEventQuery(self, event):
        self.lookers.add(threading.current_thread().name)
        with self._runtime.driver_lock:
            if not self._has_context():
                return INVALID_CONTEXT
            if getattr(self._mode, "here", 0) != RELAXED:
                self._runtime.note_unsafe("cuEventQuery")
            return self._runtime.status_of(event)

    def cuEventElapsedTime(self, elapsed, start, end):
        try:
            elapsed._obj.value = self._runtime.eventElapsedTime(start, end)
        except FakeRuntimeError as error:
            return error.status
        return 0

    def cuEventDestroy_v2(self, event):
        with self._runtime.driver_lock:
            self._runtime.eventDestroy(event)
        return 0

    def _has_context(self):
        return getattr(self._runtime.has_context, "here", False)
