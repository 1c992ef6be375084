"""Asks the RAS of NCCL on this machine what it knows of its communicators.

RAS listens on a port of this machine in every process with NCCL, 2.24 and later; its lines are
those of NCCL's own client (`ncclras`). All ranks of a host share the port: the kernel picks one.
"""

import socket
import time

from jupyter_dist.model.ras import RasReport
from jupyter_dist.model.ras_reading import read_ras

VARIABLE = "NCCL_RAS_ADDR"
"""Where RAS listens, as host:port."""
DEFAULT_ADDRESS = "localhost:28028"
CONNECT_TIMEOUT_S = 0.5
"""For a connection and RAS's first word; a process that is stopped takes connections, too."""
ATTEMPTS = 3
"""Each may reach another process."""
SILENCE_S = 1
"""How long RAS waits for processes that are silent; whole seconds before NCCL 2.31."""
ANSWER_TIMEOUT_S = 3.0
"""For everything after that. RAS waits for silence at one process, or at two in a row."""
MOST_BYTES = 4 << 20
"""An answer in JSON has some 700 bytes for each rank of each communicator."""
_LINE_BYTES = 1024


def ask_ras(address: str = "") -> RasReport | None:
    """Ask the RAS that listens at `address`; None when nobody there answers as RAS does."""
    place = _read_address(address or DEFAULT_ADDRESS)
    if place is None:
        return None
    for _ in range(ATTEMPTS):
        try:
            connection = socket.create_connection(place, CONNECT_TIMEOUT_S)
        except OSError:
            return None
        with connection:
            try:
                if not _greet(connection):
                    return None
                return _Talk(connection, ANSWER_TIMEOUT_S).read_report()
            except _Silent:
                continue
            except OSError:
                return None
    return None


class _Silent(Exception):
    """Who took the connection does not speak."""


def _greet(connection: socket.socket) -> bool:
    """Tell whether RAS is at the other end."""
    try:
        said = _Talk(connection, CONNECT_TIMEOUT_S).ask("CLIENT PROTOCOL 2")
    except TimeoutError as error:
        raise _Silent from error
    return said.startswith("SERVER PROTOCOL ")


class _Talk:
    """What is said after the greeting, until a deadline; raises OSError when it is over."""

    def __init__(self, connection: socket.socket, timeout_s: float) -> None:
        self._connection = connection
        self._deadline_s = time.monotonic() + timeout_s

    def read_report(self) -> RasReport | None:
        """Ask for everything, in JSON where that is spoken."""
        self.ask(f"TIMEOUT {SILENCE_S}")
        self.ask("SET FORMAT json")  # else text, which is what it speaks anyway
        self._say("VERBOSE STATUS")
        said = self._read_all()
        return read_ras(said.decode(errors="replace")) if said is not None else None

    def ask(self, command: str) -> str:
        """Give the line that answers a command."""
        self._say(command)
        line = b""
        while not line.endswith(b"\n"):
            piece = self._receive(1)
            if not piece or len(line) >= _LINE_BYTES:
                raise ConnectionError("this is not RAS")
            line += piece
        return line.decode(errors="replace").strip()

    def _read_all(self) -> bytes | None:
        """Read to the end; None when that is too much."""
        said = bytearray()
        while piece := self._receive(1 << 16):
            said += piece
            if len(said) > MOST_BYTES:
                return None
        return bytes(said)

    def _say(self, command: str) -> None:
        self._connection.settimeout(self._left_s())
        self._connection.sendall(f"{command}\n".encode())

    def _receive(self, most_bytes: int) -> bytes:
        self._connection.settimeout(self._left_s())
        return self._connection.recv(most_bytes)

    def _left_s(self) -> float:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s


def _read_address(address: str) -> tuple[str, int] | None:
    """Read host:port or [address]:port; None when it is neither."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return None
    return host.strip("[]"), int(port)
