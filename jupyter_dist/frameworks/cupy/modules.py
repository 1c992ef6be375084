"""What is read from CuPy's modules, and what is put into them."""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.cupy.group import Failure, form_communicator


def make_interruptible(module: ModuleType, find_failure: Callable[[], Failure | None]) -> None:
    """Have communicators formed on another thread; `module` is cupyx.distributed._nccl_comm."""
    nccl: Any = getattr(module, "nccl", None)
    if nccl is None or not hasattr(nccl, "NcclCommunicator"):
        return  # there is no NCCL

    def make(*args: Any, **options: Any) -> Any:
        return form_communicator(
            lambda: nccl.NcclCommunicator(*args, **options),
            sys.modules["cupy"].cuda,
            find_failure,
        )

    patched: Any = module
    patched.nccl = SimpleNamespace(**{**vars(nccl), "NcclCommunicator": make})


def find_lack(cupy: Any, nccl: Any) -> str:
    """Say what is missing for a process group; empty: nothing."""
    if not nccl.available:
        return (
            "CuPy finds no NCCL. Install it for CuPy's CUDA version: pip install "
            "nvidia-nccl-cu12 (or nvidia-nccl-cu13). comm works without it, in host memory."
        )
    if not cupy.cuda.is_available():
        return "CuPy finds no GPU, or no driver. comm works without one, in host memory."
    return ""


def give_mpi() -> None:
    """Give cupyx.distributed the MPI it has not loaded by itself; raises FrameworkError."""
    try:
        mpi = importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise FrameworkError(
            f"use_mpi=True needs mpi4py: {error}. Without use_mpi nothing is missing: what CuPy "
            "would use MPI for goes over the control channel."
        ) from error
    nccl_comm: Any = sys.modules["cupyx.distributed._nccl_comm"]
    nccl_comm.MPI, nccl_comm._mpi_available = mpi, True  # noqa: SLF001
