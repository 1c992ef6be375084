"""Kernels whose sockets are files.

Jupyter chooses free ports before the kernel listens at them. Beside tests that open thousands of
ports one may be taken by then: the kernel ends, and its client waits a minute for it.
"""

import shutil
import tempfile
import weakref

from jupyter_client.manager import KernelManager
from traitlets.config import Config

READY_WITHIN_S = 60


def with_files():
    """Return the configuration of what starts such a kernel; its folder goes with it."""
    folder = tempfile.mkdtemp(prefix="kernel-", dir="/tmp")  # a socket's path has few characters
    config = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/s"}})
    weakref.finalize(config, shutil.rmtree, folder, ignore_errors=True)
    return config


def start_new_kernel(**options):
    """Start a kernel, as jupyter_client's function of this name; return its manager and a client."""
    manager = KernelManager(kernel_name="python3", config=with_files())
    manager.start_kernel(**options)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=READY_WITHIN_S)
    return manager, client
