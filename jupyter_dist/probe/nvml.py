"""NVML's Python module: loaded once, and asked so that no answer depends on another one."""

from collections.abc import Iterator
from functools import cache
from typing import Any


@cache
def load() -> tuple[Any, str]:
    """Give the initialised NVML module, or None and the reason."""
    try:
        import pynvml
    except ImportError:
        return None, "the package nvidia-ml-py, which counts them, is missing"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as problem:
        return None, f"NVML: {problem}"
    return pynvml, ""


class Gpu:
    """One GPU that NVML counts; also one that cannot be asked any more."""

    def __init__(self, nvml: Any, index: int) -> None:
        self.index = index
        self.handle: Any = None
        self.problem = ""
        """Why it cannot be asked, as NVML says; empty: it can."""
        self._nvml = nvml
        self._told: dict[str, Any] = {}
        self._find()

    def _find(self) -> None:
        try:
            self.handle = self._nvml.nvmlDeviceGetHandleByIndex(self.index)
        except self._nvml.NVMLError as problem:
            self.problem = str(problem)

    def ask(self, question: str, *more: object, default: Any = None) -> Any:
        """Ask nvmlDeviceGet`question`; gives the default where the driver does not tell."""
        ask = getattr(self._nvml, f"nvmlDeviceGet{question}", None)  # older modules lack some
        if ask is None or self.handle is None:
            return default
        try:
            return ask(self.handle, *more)
        except self._nvml.NVMLError as problem:
            if self._has_gone(problem):
                self.problem = str(problem)
            return default

    def ask_once(self, question: str, *more: object, default: Any = None) -> Any:
        """Ask what never changes: an answer is remembered."""
        key = f"{question} {more}"
        if key not in self._told:
            answer = self.ask(question, *more)
            if answer is None:
                return default
            self._told[key] = answer
        return self._told[key]

    def look_again(self) -> None:
        """Forget that it could not be asked."""
        self.problem = ""
        if self.handle is None:
            self._find()

    def _has_gone(self, problem: Any) -> bool:
        """Tell whether no further question will be answered: it is off the bus, or must restart."""
        nvml = self._nvml
        return problem.value in (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED)


def list_gpus(nvml: Any) -> Iterator[Gpu]:
    """Give every GPU that NVML counts."""
    return (Gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))


def as_text(answer: str | bytes) -> str:
    """Read a text as releases of NVML's module give it."""
    return answer.decode() if isinstance(answer, bytes) else answer
