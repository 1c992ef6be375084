"""What the process of an engine does first: its streams, environment, share of cores."""

import faulthandler
import os
import resource
import sys
from collections.abc import Mapping

from threadpoolctl import threadpool_limits

from jupyter_dist.engine.code.code_imports import CodeImports, watch_imports
from jupyter_dist.engine.leaving.exit_reason import watch_exits
from jupyter_dist.frameworks.environment import framework_variables
from jupyter_dist.launch.processes.descendants import mark_descendants
from jupyter_dist.launch.processes.open_files import allow_open_files, files_of_a_rank, usable_cores
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.model.ranks.stack_thread import STACK_SIGNAL, stacks_path
from jupyter_dist.model.transfer.code_place import code_dir, imports_path
from jupyter_dist.protocol.births import EngineConfig, stream_path

_STREAM_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


def prepare_process(config: EngineConfig) -> None:
    """Give this process its streams, environment, directory and random state."""
    for descriptor, stream in ((1, "stdout"), (2, "stderr")):
        opened = os.open(stream_path(config.run_dir, config.engine, stream), _STREAM_FLAGS, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    info = config.info
    _set_variables(place_variables(info))
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    # Workers of dask leave a folder behind; this one goes with the cluster.
    os.environ.setdefault("DASK_TEMPORARY_DIRECTORY", config.run_dir)
    _set_variables(config.env)
    sys.argv = [""]  # as at a prompt of Python: the arguments of this process are ours
    os.chdir(config.cwd)
    if config.cwd not in sys.path:
        sys.path.insert(0, config.cwd)
    _share_cores(config)
    list_path = imports_path(config.run_dir, config.engine)
    watch_imports(CodeImports(code_dir(config.run_dir), list_path, os.getcwd()))
    if "numpy.random" in sys.modules:  # that of Python seeds itself in a fork
        sys.modules["numpy.random"].seed()
    faulthandler.enable(2)
    stacks = os.open(stacks_path(config.run_dir, config.engine), _STREAM_FLAGS, 0o600)
    faulthandler.register(STACK_SIGNAL, stacks, all_threads=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    mark_descendants()
    allow_open_files(files_of_a_rank(info.world_size))
    watch_exits(stream_path(config.run_dir, config.engine, "stderr"))


def _set_variables(variables: Mapping[str, str]) -> None:
    # Not by `update`, which first asks of what kind its argument is, through all of `abc`.
    for name, value in variables.items():
        os.environ[name] = value


def place_variables(info: RankInfo) -> dict[str, str]:
    """Return the variables that tell libraries of the place of a rank."""
    return {
        "RANK": str(info.rank),
        "WORLD_SIZE": str(info.world_size),
        "LOCAL_RANK": str(info.local_rank),
        "LOCAL_WORLD_SIZE": str(info.local_world_size),
        "GROUP_RANK": str(info.host_rank),
    }


def _share_cores(config: EngineConfig) -> None:
    """Give native libraries this rank's share of the host's cores, unless the user has chosen."""
    share = max(1, usable_cores() // config.info.local_world_size)
    os.environ["OMP_NUM_THREADS"] = chosen = config.env.get("OMP_NUM_THREADS", str(share))
    # Both go by OpenMP's number where they have none of their own, and PyTorch goes by MKL's.
    usual = chosen if chosen.isdecimal() else str(share)
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = config.env.get(name, usual)
    timeout_s = config.collective_timeout_s
    _set_variables(framework_variables(os.environ, share, config.jaxlib, timeout_s))
    blas_threads = os.environ["OPENBLAS_NUM_THREADS"]
    if blas_threads != "1" and blas_threads.isdecimal():
        threadpool_limits(int(blas_threads), user_api="blas")  # BLAS is loaded already, with one
