"""Plays what NVML answers on a machine of tests/data, and lays out its /sys; the form is there."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace

DATA = Path(__file__).parents[2] / "data"
NOT_SUPPORTED, TIMEOUT, GPU_IS_LOST, RESET_REQUIRED = 3, 10, 15, 16
UNINITIALIZED, DRIVER_NOT_LOADED, UNKNOWN = 1, 9, 999
_SAYINGS = {
    UNINITIALIZED: "Uninitialized",
    DRIVER_NOT_LOADED: "Driver Not Loaded",
    UNKNOWN: "Unknown Error",
    NOT_SUPPORTED: "Not Supported",
    TIMEOUT: "Timeout",
    GPU_IS_LOST: "GPU is lost",
    RESET_REQUIRED: "GPU requires restart",
}
_BY_GPU = ("nvmlDeviceGetTopologyCommonAncestor",)
_BY_QUESTION_AND_GPU = ("nvmlDeviceGetP2PStatus",)
_BY_NUMBER = ("nvmlDeviceGetNvLink", "nvmlDeviceGetMigDeviceHandleByIndex")


class NVMLError(Exception):
    """What every call may raise."""

    def __init__(self, value):
        super().__init__(_SAYINGS[value])
        self.value = value


def read_record(name):
    """Read one of tests/data; what stands for all GPUs is given to each of them."""
    record = json.loads((DATA / f"{name}.json").read_text())
    each = record.pop("each_gpu")
    record["gpus"] = [{**copy.deepcopy(each), **gpu} for gpu in record["gpus"]]
    return record


class RecordedNvml:
    """Stands in for the module pynvml; a GPU of the record that is None has been lost."""

    NVMLError = NVMLError
    NVML_ERROR_UNINITIALIZED = UNINITIALIZED
    NVML_ERROR_DRIVER_NOT_LOADED = DRIVER_NOT_LOADED
    NVML_ERROR_UNKNOWN = UNKNOWN
    NVML_ERROR_GPU_IS_LOST = GPU_IS_LOST
    NVML_ERROR_RESET_REQUIRED = RESET_REQUIRED
    NVML_FEATURE_ENABLED = 1
    NVML_NVLINK_MAX_LINKS = 36
    NVML_DEVICE_ARCH_HOPPER = 9
    nvmlEventTypeXidCriticalError = 8  # noqa: N815

    def __init__(self, record):
        self.record = record
        self.calls = []
        """(function, GPU) of every question, in order."""
        self._listened = set()
        self.driver = 1
        """Counts the loads of the driver; 0: it is unloaded."""
        self.openings = []
        """Calls of nvmlInit and nvmlShutdown, in order."""
        self._opened = 1
        """The driver that NVML was opened with; 0: it is closed."""

    def nvmlInit(self):  # noqa: N802
        self.openings.append("init")
        if not self.driver:
            raise NVMLError(DRIVER_NOT_LOADED)
        self._opened = self.driver

    def nvmlShutdown(self):  # noqa: N802
        self.openings.append("shutdown")
        self._opened = 0

    def _check_driver(self, handle=None):
        if not self._opened:
            raise NVMLError(UNINITIALIZED)
        if self._opened != self.driver:
            raise NVMLError(UNKNOWN)
        assert handle is None or handle.driver == self.driver, "a handle outlived its driver"

    def nvmlDeviceGetCount(self):  # noqa: N802
        self._check_driver()
        return len(self.record["gpus"])

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        self._check_driver()
        if self.record["gpus"][index] is None:
            raise NVMLError(GPU_IS_LOST)
        return SimpleNamespace(index=index, driver=self.driver)

    def nvmlDeviceGetIndex(self, handle):  # noqa: N802
        return handle.index

    def nvmlEventSetCreate(self):  # noqa: N802
        self._check_driver()
        if "events" not in self.record:
            raise NVMLError(NOT_SUPPORTED)
        return self.record["events"]

    def nvmlDeviceRegisterEvents(self, handle, kinds, events):  # noqa: N802
        assert events is self.record["events"]
        assert kinds == self.nvmlEventTypeXidCriticalError
        self._find("nvmlDeviceRegisterEvents", handle)
        self._listened.add(handle.index)

    def nvmlEventSetWait_v2(self, events, timeout_ms):  # noqa: N802
        assert timeout_ms == 0, "a sample waits for nothing"
        self._check_driver()
        while events:
            event = events.pop(0)
            if event["gpu"] in self._listened:
                kind = event.get("kind", self.nvmlEventTypeXidCriticalError)
                handle = SimpleNamespace(index=event["gpu"], driver=self.driver)
                return SimpleNamespace(device=handle, eventType=kind, eventData=event["xid"])
        raise NVMLError(TIMEOUT)

    def __getattr__(self, function):
        if not function.startswith("nvmlDeviceGet"):
            raise AttributeError(function)
        return lambda handle, *more: self._answer(function, handle, more)

    def _answer(self, function, handle, more):
        self.calls.append((function, handle.index))
        answer = self._find(function, handle)
        if function in _BY_GPU:
            answer = answer[more[0].index]
        elif function in _BY_QUESTION_AND_GPU:
            answer = answer.get(str(more[1]), {})[more[0].index]
        elif function.startswith(_BY_NUMBER):
            answer = answer[more[0]] if more[0] < len(answer) else None
        if answer is None:
            raise NVMLError(NOT_SUPPORTED)
        return _as_struct(answer)

    def _find(self, function, handle):
        self._check_driver(handle)
        gpu = self.record["gpus"][handle.index]
        if gpu is None:
            raise NVMLError(GPU_IS_LOST)
        if function not in gpu:
            raise NVMLError(NOT_SUPPORTED)
        return gpu[function]


def _as_struct(answer):
    """Turn objects into what has their fields as attributes."""
    if isinstance(answer, dict):
        return SimpleNamespace(**answer)
    if isinstance(answer, list):
        return [_as_struct(each) for each in answer]
    return answer


def build_sysfs(record, root):
    """Lay out below `root` what /sys has of PCI devices, network cards and NUMA nodes."""
    places = {}
    for address, place in record["pci"].items():
        places[address] = _make(root / "devices" / place["path"], numa_node=place["numa_node"])
        _link(root / "bus" / "pci" / "devices" / address, places[address])
    for number, (name, card) in enumerate(record["net"].items(), 1):
        own = {key: card[key] for key in ("speed", "operstate") if card[key] is not None}
        above = places.get(card["pci"], root / "devices" / "virtual")
        folder = _make(above / "net" / name, ifindex=number, **own)
        if card["pci"]:
            _link(folder / "device", above)
        _link(root / "class" / "net" / name, folder)
    for name, card in record["infiniband"].items():
        folder = _make(places[card["pci"]] / "infiniband" / name)
        _make(folder / "ports" / "1", rate=card["rate"], state=card["state"])
        _link(folder / "device", places[card["pci"]])
        _link(root / "class" / "infiniband" / name, folder)
    _make(root / "devices" / "system" / "node", has_cpu=record["numa_nodes"])
    return {name: number for number, name in enumerate(record["net"], 1)}


def _make(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n")
    return folder


def _link(path, target):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
