"""The floor: a ROUTER that sends a cell to N forked processes, and nothing else.

No encryption, no signatures, no heartbeats, no live output, no fence. What a fan-out over
ZeroMQ costs at the least, and how much of a cell is IPython's own `run_cell`.
"""

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from typing import Any

import zmq
from contender import CELL_TIMEOUT_S, Contender, Memory, descendants, pss_bytes

WAYS = {"ping": b"ping", "run_cell": b"cell"}


class BareZeroMQ(Contender):
    packages = ("pyzmq", "ipython", "numpy")
    run_ways = ("run_cell", "ping")
    push_ways = ("one frame",)

    def __init__(self) -> None:
        self.forker: subprocess.Popen[bytes] | None = None
        self.router: Any = None
        self.engines: list[bytes] = []
        self.asked = 0

    def start(self, n: int) -> float:
        began = time.perf_counter()
        self.router = zmq.Context.instance().socket(zmq.ROUTER)
        self.router.linger = 0
        port = self.router.bind_to_random_port("tcp://127.0.0.1")
        self.forker = subprocess.Popen(
            [sys.executable, __file__, str(port), str(n)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self.engines = [self._receive()[0] for _ in range(n)]
        self.run("pass", "run_cell")
        return time.perf_counter() - began

    def run(self, code: str, way: str) -> str:
        return self._fan_out(WAYS[way], code.encode())

    def push(self, array: Any, way: str) -> None:  # noqa: ARG002
        self._fan_out(b"push", memoryview(array).cast("B"))

    def memory(self) -> Memory:
        assert self.forker is not None
        processes = descendants()
        engines = [p for p in processes if p.ppid() == self.forker.pid]
        forkers = [p for p in processes if p.pid == self.forker.pid]
        parts = {"engine": pss_bytes(engines), "forker": pss_bytes(forkers)}
        return Memory(len(engines), parts)

    def stop(self) -> None:
        if self.forker is not None and self.forker.stdin is not None:
            self.forker.stdin.close()
            self.forker.wait(timeout=20)
        if self.router is not None:
            self.router.close()
        self.forker = self.router = None

    def _fan_out(self, verb: bytes, payload: bytes | memoryview) -> str:
        assert self.router is not None
        self.asked += 1
        number = b"%d" % self.asked
        for engine in self.engines:
            self.router.send_multipart([engine, number, verb, payload], copy=len(payload) < 65536)
        printed, left = [], len(self.engines)
        while left:
            _, answered, status, text = self._receive()
            if answered != number:
                continue
            left -= 1
            if status != b"ok":
                raise RuntimeError(text.decode())
            printed.append(text.decode())
        return "".join(printed)

    def _receive(self) -> list[bytes]:
        assert self.router is not None
        if not self.router.poll(int(CELL_TIMEOUT_S * 1000)):
            raise TimeoutError(f"an engine said nothing for {CELL_TIMEOUT_S:g} s")
        return self.router.recv_multipart()


def fork_engines(port: int, n: int) -> None:
    """Fork n engines, wait until the pipe closes, end them."""
    from IPython.core.interactiveshell import InteractiveShell  # noqa: F401, warm before the fork

    pids = []
    for rank in range(n):
        pid = os.fork()
        if pid == 0:
            serve_cells(port, rank)
        pids.append(pid)
    sys.stdin.buffer.read()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def serve_cells(port: int, rank: int) -> None:
    """Be one engine: answer every message with one message."""
    import numpy as np
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    quiet = Config({"HistoryManager": {"enabled": False}})
    shell = InteractiveShell.instance(config=quiet)
    dealer: Any = zmq.Context.instance().socket(zmq.DEALER)
    dealer.identity = b"%d" % rank
    dealer.connect(f"tcp://127.0.0.1:{port}")
    dealer.send_multipart([b"", b"hello", b""])
    while True:
        number, verb, payload = dealer.recv_multipart(copy=False)
        status, text = b"ok", ""
        if verb.bytes == b"cell":
            with contextlib.redirect_stdout(io.StringIO()) as stdout:
                result = shell.run_cell(payload.bytes.decode(), store_history=False)
            text = stdout.getvalue()
            status = b"ok" if result.success else b"raised"
        elif verb.bytes == b"push":
            shell.user_ns["pushed"] = np.frombuffer(payload.buffer, dtype=np.float64)
        dealer.send_multipart([number.bytes, status, text.encode()])


if __name__ == "__main__":
    fork_engines(int(sys.argv[1]), int(sys.argv[2]))
