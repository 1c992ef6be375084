"""NVML as its Python module shows it, with GPUs that a test describes."""

from dataclasses import dataclass, field
from types import SimpleNamespace


class NVMLError(Exception):
    """What every call may raise."""

    value = 0


@dataclass
class FakeGpu:
    """Answers by the name of the call; a call without an answer is not supported."""

    answers: dict[str, object] = field(default_factory=dict)
    nvlinks: dict[int, int] = field(default_factory=dict)
    """NVLinks that are up: link -> NVML's code of its version."""


class FakeNvml:
    """Stands in for the module pynvml."""

    NVMLError = NVMLError
    NVML_ERROR_UNINITIALIZED = 1
    NVML_ERROR_DRIVER_NOT_LOADED = 9
    NVML_ERROR_GPU_IS_LOST = 15
    NVML_ERROR_RESET_REQUIRED = 16
    NVML_ERROR_UNKNOWN = 999
    NVML_FEATURE_ENABLED = 1
    NVML_NVLINK_MAX_LINKS = 36
    NVML_DEVICE_ARCH_HOPPER = 9

    def __init__(self, *gpus: FakeGpu | None, init_problem: str = "") -> None:
        self._gpus = gpus
        """None: a GPU that has fallen off the bus."""
        self._init_problem = init_problem

    def nvmlInit(self) -> None:  # noqa: N802
        if self._init_problem:
            raise NVMLError(self._init_problem)

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:  # noqa: N802
        gpu = self._gpus[index]
        if gpu is None:
            raise NVMLError("GPU is lost")
        return gpu

    def nvmlDeviceGetNvLinkState(self, gpu: FakeGpu, link: int) -> int:  # noqa: N802
        if not gpu.nvlinks:
            raise NVMLError("Not Supported")
        return int(link in gpu.nvlinks)

    def nvmlDeviceGetNvLinkVersion(self, gpu: FakeGpu, link: int) -> int:  # noqa: N802
        return gpu.nvlinks[link]

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu) -> SimpleNamespace:  # noqa: N802
        used, total = self._answer(gpu, "MemoryInfo")
        return SimpleNamespace(used=used, total=total)

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(gpu=self._answer(gpu, "UtilizationRates"))

    def nvmlDeviceGetPciInfo(self, gpu: FakeGpu) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(busId=self._answer(gpu, "PciInfo"))

    def __getattr__(self, name: str):
        question = name.removeprefix("nvmlDeviceGet")
        return lambda gpu, *_: self._answer(gpu, question)

    def _answer(self, gpu: FakeGpu, question: str):
        if question not in gpu.answers:
            raise NVMLError("Not Supported")
        return gpu.answers[question]
