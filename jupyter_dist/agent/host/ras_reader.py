"""Reads what NCCL knows of this host's ranks, on a thread, and keeps a port of their own for it."""

import os
import threading
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from jupyter_dist.probe.gpus import count_gpus
from jupyter_dist.probe.nccl_ras import VARIABLE, ask_ras
from jupyter_dist.protocol import host_agent_pb2 as pb

PORTS = range(20_000, 32_000)
"""Below those that systems give away on their own."""


def ras_port(run_dir: Path) -> int:
    """Return the port of the ranks of one agent, whose run directory is its own.

    Jobs of one user on one host may share a port without knowing it, and would be read as one.
    Where another program has it, NCCL goes on without a port.
    """
    return PORTS[zlib.crc32(os.fsencode(run_dir)) % len(PORTS)]


class RasReader:
    """Answers questions for what NCCL knows, each on a thread of its own."""

    def __init__(self, run_dir: Path, tell: Callable[[pb.AgentEvent], None]) -> None:
        self._run_dir = run_dir
        self._tell = tell
        self._address = ""
        """Where RAS listens in this host's ranks; empty: they have no NCCL."""

    def wishes(self, asked: Mapping[str, str]) -> dict[str, str]:
        """Choose where RAS listens, unless the user or this host's environment has."""
        chosen = asked.get(VARIABLE) or os.environ.get(VARIABLE, "")
        if chosen or count_gpus() == 0:
            self._address = chosen
            return {}
        self._address = f"localhost:{ras_port(self._run_dir)}"
        return {VARIABLE: self._address}

    def obey(self, command: pb.ReadRas) -> None:
        """Read soon; the answer is told from the thread, and is empty where there is none."""
        arguments = (command.request_id, self._address)
        threading.Thread(target=self._read, args=arguments, name="ras", daemon=True).start()

    def _read(self, request_id: str, address: str) -> None:
        report = ask_ras(address) if address else None
        data = msgspec.msgpack.encode(report) if report is not None else b""
        self._tell(pb.AgentEvent(ras_read=pb.RasRead(request_id=request_id, report=data)))
