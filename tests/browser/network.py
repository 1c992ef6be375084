"""A network namespace for pages, so that labs of other tests do not end what they ask for.

Whenever this machine gets or loses an address, Chromium drops its requests (ERR_NETWORK_CHANGED),
also those on loopback; and labs of hosts, which run beside, give it addresses and take them away.
"""

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator

_NEW_NETWORK = 0x40000000
"""CLONE_NEWNET"""
_PRESENT = "/proc/thread-self/ns/net"


class OwnNetwork:
    """A namespace with nothing but loopback; without the right to make one, nothing changes.

    Then there are no labs either, which need the same right.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._usual = os.open(_PRESENT, os.O_RDONLY)
        self._own: int | None = None
        with self._coming_back():
            if self._libc.unshare(_NEW_NETWORK) == 0:
                subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
                self._own = os.open(_PRESENT, os.O_RDONLY)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Have this thread in it for a block, with all threads and processes it starts there."""
        with self._coming_back():
            if self._own is not None:
                self._enter(self._own)
            yield

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Have this thread in the network of all other tests for a block."""
        with self._coming_back():
            self._enter(self._usual)
            yield

    def close(self) -> None:
        """Let go of it."""
        os.close(self._usual)
        if self._own is not None:
            os.close(self._own)

    @contextlib.contextmanager
    def _coming_back(self) -> Iterator[None]:
        before = os.open(_PRESENT, os.O_RDONLY)
        try:
            yield
        finally:
            self._enter(before)
            os.close(before)

    def _enter(self, namespace: int) -> None:
        if self._libc.setns(namespace, _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "cannot enter a network namespace")
