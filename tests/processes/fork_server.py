"""Ranks that are forked from one warm process, for tests that start many; each is like a Popen."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

START_TIMEOUT_S = 60.0
END_TIMEOUT_S = 30.0
MOST_BYTES = 4096
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""As on an engine; and a library that starts threads when it is loaded could not be forked."""


class ForkServer:
    """The warm process of one rank program, with what else is to be loaded before the forks."""

    def __init__(self, program, *modules):
        here, there = socket.socketpair()
        path = Path(__file__).with_name("forked_rank.py")
        arguments = [str(there.fileno()), str(os.getpid()), program, *modules]
        self._process = subprocess.Popen(
            [sys.executable, path, *arguments],
            pass_fds=[there.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | ONE_THREAD,
            start_new_session=True,
        )
        there.close()
        self._orders = here
        here.settimeout(START_TIMEOUT_S)
        assert here.recv(MOST_BYTES) == b"ready", "the fork server has failed; see its stderr"

    def start(self, *arguments):
        """Start a rank whose program gets these arguments; gives its process."""
        stdin, to_rank = os.pipe()
        from_rank, stdout = os.pipe()
        socket.send_fds(self._orders, [json.dumps(["fork", arguments]).encode()], [stdin, stdout])
        os.close(stdin)
        os.close(stdout)
        told, handles, _flags, _address = socket.recv_fds(self._orders, MOST_BYTES, 1)
        (handle,) = handles
        return ForkedRank(self, json.loads(told), handle, to_rank, from_rank)

    def wait_for(self, pid):
        """Reap a rank that has ended; give its exit status as Popen does."""
        self._orders.sendall(json.dumps(["wait", pid]).encode())
        return json.loads(self._orders.recv(MOST_BYTES))

    def close(self):
        """End the server, and with it any rank that is left."""
        self._orders.close()
        try:
            assert self._process.wait(END_TIMEOUT_S) == 0
        finally:
            self._process.kill()
            self._process.wait(END_TIMEOUT_S)


class ForkedRank:
    """A process of a fork server, with as much of Popen as the tests use."""

    def __init__(self, server, pid, handle, to_rank, from_rank):
        self.pid = pid
        self.returncode = None
        self.stdin = os.fdopen(to_rank, "w")
        self.stdout = os.fdopen(from_rank)
        self._server = server
        self._handle = handle

    def send_signal(self, number):
        """Signal it, unless it was waited for."""
        if self.returncode is None:
            signal.pidfd_send_signal(self._handle, number)

    def kill(self):
        """Kill it, unless it was waited for."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout_s=None):
        """Wait for its end; gives its exit status, negative for a signal."""
        if self.returncode is None:
            ended, _, _ = select.select([self._handle], [], [], timeout_s)
            if not ended:
                raise subprocess.TimeoutExpired(f"rank process {self.pid}", timeout_s)
            self.returncode = self._server.wait_for(self.pid)
            os.close(self._handle)
        return self.returncode
