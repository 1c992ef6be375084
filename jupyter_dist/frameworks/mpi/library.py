"""The MPI library that mpi4py uses, asked before it starts, and the environment it starts in."""

import ctypes
import os
from collections.abc import Mapping
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from jupyter_dist.errors import FrameworkError

_LIKE_MPICH = ("MPICH", "Intel(R) MPI", "MVAPICH")
_LAUNCHED = (
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "SLURM_NTASKS"),
)
_OF_LAUNCHERS = ("PMI_", "PMI2_", "PMIX_", "MPI_LOCAL", "MPIR_CVAR_PMI")
"""What launchers leave in the environment: with it, MPI would look for another world."""


def name_library(mpi4py: ModuleType) -> str:
    """Name the library and its version, as `MPICH 5.0.2`; raises FrameworkError without one."""
    try:
        library = _load(mpi4py)
        text = ctypes.create_string_buffer(8192)
        library.MPI_Get_library_version(text, ctypes.byref(ctypes.c_int()))
    except (OSError, AttributeError, RuntimeError) as error:
        first = str(error).strip().splitlines()[0]
        raise FrameworkError(
            f"mpi4py finds no MPI library ({first}). Install one beside it: pip install mpich."
        ) from error
    return shorten_version(text.value.decode("utf-8", "replace"))


def _load(mpi4py: ModuleType) -> Any:
    """Load what mpi4py is about to load."""
    abi = getattr(mpi4py, "_mpiabi", None)
    find = getattr(abi, "_dlopen_libmpi", None)
    if find is not None:  # its wheels take whatever library there is
        return find(getattr(abi, "LIBMPI", None) or os.environ.get("MPI4PY_LIBMPI"))
    spec = PathFinder.find_spec("mpi4py.MPI", mpi4py.__path__)
    if spec is None or spec.origin is None:
        raise OSError("there is no mpi4py.MPI")
    return ctypes.CDLL(spec.origin, os.RTLD_LAZY)  # built for one library, and linked with it


def shorten_version(text: str) -> str:
    """Give `MPICH 5.0.2` for what the library has to say of itself."""
    words = text.strip().partition("\n")[0].partition(",")[0].replace("Version", " ").split()
    return " ".join(word for word in words if word != ":")


def is_like_mpich(library: str) -> bool:
    """Return whether its processes meet by PMI-1, without having been started together."""
    return library.startswith(_LIKE_MPICH)


def find_launched(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """Return the rank and world size that an MPI launcher gave this process, or None."""
    for rank, size in _LAUNCHED:
        if environ.get(rank, "").isdecimal() and environ.get(size, "").isdecimal():
            return int(environ[rank]), int(environ[size])
    return None


class StartingEnvironment:
    """What stands in the environment while MPI starts; programs the user starts must not see it."""

    def __init__(self) -> None:
        self._before: dict[str, str] | None = None

    def enter(self, descriptor: int, rank: int, world_size: int) -> None:
        """Make MPI start as this rank, over a connection to its service."""
        if self._before is None:
            self._before = _take_launcher_variables()
        os.environ |= {
            "PMI_FD": str(descriptor),
            "PMI_RANK": str(rank),
            "PMI_SIZE": str(world_size),
        }

    def leave(self) -> None:
        """Have it as it was."""
        if self._before is not None:
            _take_launcher_variables()
            os.environ |= self._before
            self._before = None


def _take_launcher_variables() -> dict[str, str]:
    names = [name for name in os.environ if name.startswith(_OF_LAUNCHERS)]
    return {name: os.environ.pop(name) for name in names}
