"""Critical errors of GPUs (Xid), which the driver tells to those who listen when they happen."""

import contextlib
from collections.abc import Sequence
from typing import Any

from jupyter_dist.probe.nvml import Gpu

_MOST_AT_ONCE = 256
"""A GPU in trouble may tell of one error for each of its channels."""


class XidEvents:
    """Listens from its making on; remembers the last error of each GPU."""

    def __init__(self, nvml: Any, gpus: Sequence[Gpu]) -> None:
        self._nvml = nvml
        self._events: Any = None
        self._last: dict[int, tuple[int, float]] = {}
        if gpus:
            self.listen_to(gpus)

    def listen_to(self, gpus: Sequence[Gpu]) -> None:
        """Listen to these from now on; the set of events that was there is gone with its driver."""
        nvml, self._events = self._nvml, None
        with contextlib.suppress(nvml.NVMLError):
            self._events = nvml.nvmlEventSetCreate()
        for gpu in gpus if self._events is not None else ():
            if gpu.handle is not None:
                # Some (GPUs of a hypervisor, for instance) have no events; the others may.
                with contextlib.suppress(nvml.NVMLError):
                    nvml.nvmlDeviceRegisterEvents(
                        gpu.handle, nvml.nvmlEventTypeXidCriticalError, self._events
                    )

    def collect(self, now_s: float) -> None:
        """Take in what has been told since the last time; does not wait."""
        if self._events is None:
            return
        nvml = self._nvml
        with contextlib.suppress(nvml.NVMLError):  # a time-out: there is no more
            for _ in range(_MOST_AT_ONCE):
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
                if event.eventType & nvml.nvmlEventTypeXidCriticalError:
                    index = nvml.nvmlDeviceGetIndex(event.device)
                    self._last[index] = (int(event.eventData), now_s)

    def last(self, index: int, now_s: float) -> tuple[int, float]:
        """Give the number of a GPU's last error and its age in seconds; zeros: none."""
        xid, then_s = self._last.get(index, (0, now_s))
        return xid, now_s - then_s
