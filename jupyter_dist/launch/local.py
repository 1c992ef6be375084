"""Agents on this machine."""

import socket
import subprocess
import sys
from typing import IO

import msgspec
import psutil

from jupyter_dist.launch.base import Invitation


class LocalAgent:
    """An agent process on this machine."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Process number."""
        return self._process.pid

    def invite(self, invitation: Invitation) -> None:
        """Tell it where home is; a process that is gone already is found by `poll`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(invitation) + b"\n")
            self._process.stdin.close()
        except BrokenPipeError:
            return

    def poll(self) -> int | None:
        """Give the exit status, or None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end and give the exit status, or None when it still runs."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> None:
        """Ask it to clean up and end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it at once; its engines end with it."""
        self._process.kill()
        self._process.wait()


class LocalLauncher:
    """Starts agents as child processes; to be used from the main thread (see lifeline.py)."""

    def __init__(self, log: IO[bytes], start_method: str, parent_pid: int) -> None:
        self._log = log
        self._start_method = start_method
        self._parent_pid = parent_pid

    def start(self, host: str) -> LocalAgent:
        """Start an agent that will call itself `host`."""
        del host
        process = subprocess.Popen(
            # -P: a file named like one of our imports in the current directory must not win.
            [
                *(sys.executable, "-P", "-m", "jupyter_dist.agent"),
                *("--start-method", self._start_method),
                *("--parent-pid", str(self._parent_pid)),
            ],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        return LocalAgent(process)


def is_this_machine(host: str) -> bool:
    """Tell whether the name leads to this machine; raises OSError when it leads nowhere."""
    if host in ("localhost", socket.gethostname()):
        return True
    own = {
        address.address.partition("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
    }
    bare = host.strip("[]")
    found = {str(info[4][0]) for info in socket.getaddrinfo(bare, None)}
    return bool(found & own) or any(address.startswith("127.") for address in found)
