"""Tell the coordinator who we are and what we want to do: own the cluster, observe it, or visit."""

import os
import sys
from pathlib import Path

import msgspec

from jupyter_dist.cluster.connection.connection import CLOSE_PATIENCE_S, Connection
from jupyter_dist.launch.processes.private_dir import this_machine
from jupyter_dist.protocol.messages import ClaimRole, RoleGranted

ANSWER_TIMEOUT_S = 10.0
_CONNECTION_FILE = "kernel-"
_NOTEBOOK = "JPY_SESSION_NAME"
"""Jupyter Server tells a kernel the path of its notebook in this variable."""


def take_part(line: Connection, role: str, is_taking_over: bool) -> str:
    """Take this role; return who owns the cluster then, or an empty string.

    Raises ClusterInUse when another process that lives owns it.
    """
    number, pid = line.new_request_id(), os.getpid()
    machine = this_machine() if line.is_far else ""
    request = ClaimRole(number, pid, name_us(), role, is_taking_over, kernel_id(), machine=machine)
    return line.ask(request, RoleGranted, timeout_s=ANSWER_TIMEOUT_S)[0].owner


def leave_place(line: Connection, *, keeps_cluster: bool = False) -> None:
    """Give up ownership of the cluster, without waiting for an answer.

    With `keeps_cluster` it shall live for a while, though it was to end with its owner.
    """
    if not line.lock.acquire(timeout=CLOSE_PATIENCE_S):
        return  # another thread waits for an answer; our silence will tell as well, only later
    try:
        machine = this_machine() if line.is_far else ""
        claim = ClaimRole(line.new_request_id(), os.getpid(), name_us(), "visit", machine=machine)
        line.send(msgspec.structs.replace(claim, keeps_cluster=keeps_cluster))
    finally:
        line.lock.release()


def kernel_id() -> str:
    """Return the id by which Jupyter Server knows this kernel; empty where this is none.

    The name of its connection file has it, as ipyparallel and others read it too; a front end
    that names this file otherwise does not ask Jupyter Server either.
    """
    kernelapp = sys.modules.get("ipykernel.kernelapp")
    if kernelapp is None or not kernelapp.IPKernelApp.initialized():
        return ""
    file = Path(kernelapp.IPKernelApp.instance().connection_file)
    return file.stem.removeprefix(_CONNECTION_FILE)


def name_us() -> str:
    """Name this process as a person knows it: `notebook train.ipynb`, `program train.py`."""
    program = Path(sys.argv[0]).name if sys.argv else ""
    if program == "ipykernel_launcher.py" or _is_kernel():
        notebook = Path(os.environ.get(_NOTEBOOK, "")).name
        return f"notebook {notebook}" if notebook else "a notebook"
    if program in ("ipython", "ipython3"):
        return "an IPython"
    return f"program {program}" if program not in ("", "-c", "-") else "a Python"


def _is_kernel() -> bool:
    """Return whether a front end talks to this process; ipyparallel loads ipykernel elsewhere."""
    find_shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return getattr(find_shell(), "kernel", None) is not None
