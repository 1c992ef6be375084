"""What an engine is told before it is born, and what its process does first."""

import faulthandler
import importlib.metadata
import os
import random
import resource
import sys

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from jupyter_dist.engine.code_imports import CodeImports, watch_imports
from jupyter_dist.engine.ending import watch_exits
from jupyter_dist.frameworks.environment import framework_variables
from jupyter_dist.launch.descendants import mark_descendants
from jupyter_dist.launch.open_files import allow_open_files
from jupyter_dist.model.code_place import code_dir, imports_path
from jupyter_dist.model.open_files import files_of_a_rank
from jupyter_dist.model.rank import RankInfo
from jupyter_dist.model.stack_place import STACK_SIGNAL, stacks_path
from jupyter_dist.protocol.credentials import Credentials

_STREAM_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class Birth(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one engine needs; agent -> zygote as JSON, never on a command line."""

    engine: str
    """Its name: no other engine of the cluster ever has it, whatever rank it gets."""
    info: RankInfo
    generation: int
    cluster: str
    engines_address: str
    beats_address: str
    credentials: Credentials
    run_dir: str
    """Private directory of this host: what ranks say is kept here."""
    memory_dir: str
    """Private directory in memory: records of collectives and the sources of cells."""
    bind_host: str = "127.0.0.1"
    """Address on which peers reach this engine's communicator."""
    communicator: str = "ring"
    collective_timeout_s: float = 1800.0
    lost_after_s: float = 10.0
    """After a silence of so long it is given up by its coordinator."""
    jax: str = "auto"
    """When ranks form JAX by themselves: at the start, with the first cell that needs it, never."""
    save_on_preempt: str = ""
    """Where variables that are marked are saved before a host is taken away; empty: nowhere."""
    env: dict[str, str] = {}
    cwd: str = "."


class ZygoteRequest(msgspec.Struct, frozen=True):
    """One line to the zygote: the engines to start."""

    births: tuple[Birth, ...]


class ZygoteEvent(msgspec.Struct, frozen=True):
    """One line from the zygote: `ready`, `started` or `exited`."""

    kind: str
    engine: str = ""
    pid: int = 0
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    peak_bytes: int = 0
    """The most memory that a process which exited ever had."""


def stream_path(run_dir: str, engine: str, stream: str) -> str:
    """File that holds everything the engine wrote to `stdout` or `stderr`."""
    return f"{run_dir}/rank-{engine}.{stream}"


def record_path(memory_dir: str, engine: str) -> str:
    """File with the engine's last collectives, readable while it is stuck or dead."""
    return f"{memory_dir}/rank-{engine}.collectives"


def prepare_process(birth: Birth) -> None:
    """Give this process its streams, environment, directory and random state."""
    for descriptor, stream in ((1, "stdout"), (2, "stderr")):
        opened = os.open(stream_path(birth.run_dir, birth.engine, stream), _STREAM_FLAGS, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    info = birth.info
    os.environ.update(place_variables(info))
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    # Workers of dask leave a folder behind; this one goes with the cluster.
    os.environ.setdefault("DASK_TEMPORARY_DIRECTORY", birth.run_dir)
    os.environ.update(birth.env)
    sys.argv = [""]  # as at a prompt of Python: the arguments of this process are ours
    os.chdir(birth.cwd)
    if birth.cwd not in sys.path:
        sys.path.insert(0, birth.cwd)
    _share_cores(birth)
    list_path = imports_path(birth.run_dir, birth.engine)
    watch_imports(CodeImports(code_dir(birth.run_dir), list_path, os.getcwd()))
    random.seed()
    np.random.seed()
    faulthandler.enable(2)
    stacks = os.open(stacks_path(birth.run_dir, birth.engine), _STREAM_FLAGS, 0o600)
    faulthandler.register(STACK_SIGNAL, stacks, all_threads=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    mark_descendants()
    allow_open_files(files_of_a_rank(info.world_size))
    watch_exits(stream_path(birth.run_dir, birth.engine, "stderr"))


def place_variables(info: RankInfo) -> dict[str, str]:
    """Give the variables that tell libraries of the place of a rank."""
    return {
        "RANK": str(info.rank),
        "WORLD_SIZE": str(info.world_size),
        "LOCAL_RANK": str(info.local_rank),
        "LOCAL_WORLD_SIZE": str(info.local_world_size),
    }


def _share_cores(birth: Birth) -> None:
    """Give native libraries this rank's share of the host's cores, unless the user has chosen."""
    share = max(1, len(os.sched_getaffinity(0)) // birth.info.local_world_size)
    os.environ["OMP_NUM_THREADS"] = chosen = birth.env.get("OMP_NUM_THREADS", str(share))
    # Both go by OpenMP's number where they have none of their own, and PyTorch goes by MKL's.
    usual = chosen if chosen.isdecimal() else str(share)
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = birth.env.get(name, usual)
    jaxlib, timeout_s = _find_version("jaxlib"), birth.collective_timeout_s
    os.environ.update(framework_variables(os.environ, share, jaxlib, timeout_s))
    blas_threads = os.environ["OPENBLAS_NUM_THREADS"]
    if blas_threads != "1" and blas_threads.isdecimal():
        threadpool_limits(int(blas_threads), user_api="blas")  # BLAS is loaded already, with one


def _find_version(package: str) -> str:
    """Give the version that would be imported; empty: it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
