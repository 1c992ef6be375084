"""Knock at every port of a cluster with garbage, and measure what its cells notice of it.

python benchmarks/garbage_connections.py [--connections 100000] [--ranks 2] [--ports agents,rank-0]

Each port gets so many connections: HTTP, random bytes, the beginning of TLS, a greeting of ZeroMQ
with rubbish behind it, nothing at all. One in ten stays open, silent, until 500 more have come.
Meanwhile a cell with a collective runs every 0.2 s. A cell may take 1 s and the log may grow by
4 KiB, or the exit status is 1. Linux only: addresses 127.0.0.2 and on are used, as each gives
28,000 connections a minute.
"""

import itertools
import os
import socket
import statistics
import threading
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import psutil
from figures import publish, read_options, tell
from machine import describe_machine

from jupyter_dist import Cluster
from jupyter_dist.launch.files.connection_file import (
    ConnectionInfo,
    connection_path,
    read_connection,
)
from jupyter_dist.version import __version__

CELL = "import numpy as np\nfloat(comm.all_reduce(np.ones(4)).sum())"
PAUSE_S = 0.2
LIMIT_S = 1.0
LOG_LIMIT_BYTES = 4096
HELD = 500
WORDS = (
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    os.urandom(300),
    b"\x16\x03\x01" + os.urandom(200),
    b"\xff" + bytes(8) + b"\x7f\x03\x00CURVE" + bytes(15) + b"\x00" + bytes(31) + os.urandom(100),
    b"",
)
SOURCES = [f"127.0.0.{last}" for last in range(2, 250)]


def find_connection(cluster: Cluster) -> ConnectionInfo:
    """Read the connection file of the cluster."""
    found = read_connection(connection_path(cluster.name))
    assert found is not None
    return found


def find_ports(cluster: Cluster) -> dict[str, list[int]]:
    """Find every port on which the cluster listens, by who does."""
    engines = [engine.pid for engine in cluster.topology().engines]
    coordinator = psutil.Process(find_connection(cluster).coordinator_pid)
    owners = {"coordinator": coordinator.pid}
    owners |= {f"rank-{rank}": pid for rank, pid in enumerate(engines)}
    return {name: _listening(pid) for name, pid in owners.items()}


def _listening(pid: int) -> list[int]:
    found = psutil.Process(pid).net_connections("tcp")
    return sorted({each.laddr.port for each in found if each.status == psutil.CONN_LISTEN})


def knock(port: int, connections: int) -> int:
    """Make so many connections to the port; give how many of them were refused."""
    refused = 0
    held: deque[socket.socket] = deque()
    choices = zip(
        itertools.cycle(WORDS), itertools.cycle(SOURCES), range(connections), strict=False
    )
    for word, source, number in choices:
        visitor = socket.socket()
        visitor.settimeout(5)
        visitor.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        try:
            visitor.bind((source, 0))
            visitor.connect(("127.0.0.1", port))
            if number % 10 == 0:
                held.append(visitor)
                if len(held) > HELD // 10:
                    held.popleft().close()
                continue
            visitor.sendall(word)
        except OSError:
            refused += 1
        visitor.close()
    for visitor in held:
        visitor.close()
    return refused


class Cells(threading.Thread):
    """Runs a cell every now and then, and keeps how long each has taken."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(name="cells")
        self._cluster = cluster
        self._is_over = threading.Event()
        self.took_s: list[float] = []
        self.problems: list[str] = []

    def run(self) -> None:
        """Run cells until told to stop."""
        while not self._is_over.wait(PAUSE_S):
            begin_s = time.perf_counter()
            result = self._cluster.run(CELL)
            self.took_s.append(time.perf_counter() - begin_s)
            if not result.ok:
                self.problems.append(repr(result))

    def stop(self) -> None:
        """Let the last cell end."""
        self._is_over.set()
        self.join()


def measure(cluster: Cluster, port: int, connections: int) -> tuple[Cells, float, int]:
    """Knock at one port while cells run; give these, the seconds it took, and who was refused."""
    cells = Cells(cluster)
    cells.start()
    begin_s = time.perf_counter()
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # cells need this interpreter
        refused = pool.submit(knock, port, connections).result()
    took_s = time.perf_counter() - begin_s
    cells.stop()
    return cells, took_s, refused


def main() -> int:
    """Measure, print, and fail when a cell was late or the log has grown."""
    options = read_options(__doc__, connections=100_000, ranks=2, ports="")
    machine = {**describe_machine(), "jupyter-dist": __version__}
    is_good = True
    table: dict[str, dict[str, float]] = {}
    with Cluster.start(f"localhost:{options.ranks}") as cluster:
        ports = {
            f"{owner}-{number}" if len(found) > 1 else owner: port
            for owner, found in find_ports(cluster).items()
            for number, port in enumerate(found)
        }
        coordinator = psutil.Process(find_connection(cluster).coordinator_pid)
        log = Path(find_connection(cluster).log_path)
        for name in options.ports.split(",") if options.ports else list(ports):
            tell(f"{options.connections} connections to {name}")
            before = log.stat().st_size, coordinator.memory_info().rss
            cells, took_s, refused = measure(cluster, ports[name], options.connections)
            grown = log.stat().st_size - before[0]
            worst_s = max(cells.took_s, default=0.0)
            is_good &= worst_s <= LIMIT_S and grown <= LOG_LIMIT_BYTES and not cells.problems
            table[name] = {
                "took_s": took_s,
                "refused": refused,
                "cells": len(cells.took_s),
                "bad_cells": len(cells.problems),
                "median_ms": statistics.median(cells.took_s) * 1e3,
                "worst_ms": worst_s * 1e3,
                "log_grown_bytes": grown,
                "coordinator_grown_mb": (coordinator.memory_info().rss - before[1]) / 1e6,
                "its_files": coordinator.num_fds(),
            }
            for problem in cells.problems[:3]:
                tell(f"    {problem}")
    publish(options, table, digits=1, machine=machine)
    return int(not is_good)


if __name__ == "__main__":
    raise SystemExit(main())
