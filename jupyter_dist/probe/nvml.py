"""NVML's Python module: loaded once, and asked so that no answer depends on another one."""

import contextlib
from collections.abc import Iterator
from functools import cache
from typing import Any


@cache
def load() -> tuple[Any, str]:
    """Return the initialised NVML module, or None and the reason."""
    try:
        import pynvml
    except ImportError:
        return None, "the package nvidia-ml-py, which counts them, is missing"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as problem:
        return None, f"NVML: {problem}"
    return pynvml, ""


def load_again(nvml: Any) -> bool:
    """Open NVML again, as after a reload of its driver; tell whether that answers now."""
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlShutdown()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return False
    return True


class Gpu:
    """One GPU that NVML counts; also one that cannot be asked any more."""

    def __init__(self, nvml: Any, index: int) -> None:
        self.index = index
        self.handle: Any = None
        self.problem = ""
        """Why it cannot be asked, as NVML says; empty: it can."""
        self.lost_driver = ""
        """What NVML says of its driver instead of an answer; empty: a question was answered."""
        self._nvml = nvml
        self._told: dict[str, Any] = {}
        self._has_answered = False
        self._find()

    def _find(self) -> None:
        try:
            self.handle = self._nvml.nvmlDeviceGetHandleByIndex(self.index)
        except self._nvml.NVMLError as problem:
            self.problem = str(problem)
            self._note_driver(problem)

    def ask(self, question: str, *more: object, default: Any = None) -> Any:
        """Ask nvmlDeviceGet`question`; gives the default where the driver does not tell."""
        ask = getattr(self._nvml, f"nvmlDeviceGet{question}", None)  # older modules lack some
        if ask is None or self.handle is None:
            return default
        try:
            answer = ask(self.handle, *more)
        except self._nvml.NVMLError as problem:
            if problem.value in (
                self._nvml.NVML_ERROR_GPU_IS_LOST,  # it is off the bus
                self._nvml.NVML_ERROR_RESET_REQUIRED,
            ):
                self.problem = str(problem)
            self._note_driver(problem)
            return default
        self._has_answered, self.lost_driver = True, ""
        return answer

    def ask_once(self, question: str, default: Any) -> Any:
        """Ask what never changes: an answer is remembered."""
        if question not in self._told:
            answer = self.ask(question)
            if answer is None:
                return default
            self._told[question] = answer
        return self._told[question]

    def look_again(self) -> None:
        """Forget that it could not be asked."""
        self.problem = self.lost_driver = ""
        self._has_answered = False
        if self.handle is None:
            self._find()

    def _note_driver(self, problem: Any) -> None:
        """Note that the driver was unloaded under us; one odd answer among good ones says nothing.

        NVML then fails with `unknown error`, or as if it had never been initialised.
        """
        nvml = self._nvml
        signs = nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_DRIVER_NOT_LOADED
        if not self._has_answered and problem.value in (*signs, nvml.NVML_ERROR_UNKNOWN):
            self.lost_driver = str(problem)


def count_gpus(nvml: Any) -> int:
    """Count the GPUs; none without NVML (None), or while their driver is away."""
    if nvml is None:
        return 0
    with contextlib.suppress(nvml.NVMLError):
        return int(nvml.nvmlDeviceGetCount())
    return 0


def list_gpus(nvml: Any) -> Iterator[Gpu]:
    """Yield every GPU that NVML counts."""
    return (Gpu(nvml, index) for index in range(count_gpus(nvml)))


def as_text(answer: str | bytes) -> str:
    """Read a text as releases of NVML's module give it."""
    return answer.decode() if isinstance(answer, bytes) else answer
