"""Asks the RAS of NCCL on this machine what it knows of its communicators.

RAS listens on a port of this machine in every process with NCCL, 2.24 and later, and speaks JSON
from 2.28.7 on. Its lines are those of NCCL's own client (`ncclras`). All ranks of a host share the
port: the kernel picks one.
"""

import contextlib
import socket
import time

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.addresses import split_address
from jupyter_dist.model.ranks.ras import RasCommunicator, RasMissing, RasRank, RasReport

VARIABLE = "NCCL_RAS_ADDR"
"""Where RAS listens, as host:port."""
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


def ask_ras(address: str, timeout_s: float = ANSWER_TIMEOUT_S) -> RasReport | None:
    """Ask the RAS that listens at `address`; None when none answers there in that time."""
    with contextlib.suppress(OSError, UsageError):
        for _ in range(ATTEMPTS):
            with socket.create_connection(split_address(address), CONNECT_TIMEOUT_S) as connection:
                try:
                    said = _Talk(connection, CONNECT_TIMEOUT_S).ask("CLIENT PROTOCOL 2")
                except TimeoutError:
                    continue  # who took the connection does not speak
                if not said.startswith("SERVER PROTOCOL "):
                    return None
                return _Talk(connection, timeout_s).read_report()
    return None


class _Talk:
    """What is said after the greeting, until a deadline; raises OSError when it is over."""

    def __init__(self, connection: socket.socket, timeout_s: float) -> None:
        self._connection = connection
        self._deadline_s = time.monotonic() + timeout_s

    def read_report(self) -> RasReport | None:
        """Ask for everything in JSON; a release without it has only text that is for people."""
        self.ask(f"TIMEOUT {SILENCE_S}")
        if self.ask("SET FORMAT json").startswith("ERROR"):
            return RasReport(is_too_old=True)
        self._say("VERBOSE STATUS")
        said = bytearray()
        while piece := self._receive(1 << 16):
            said += piece
            if len(said) > MOST_BYTES:
                return None
        return read_ras(said.decode(errors="replace"))

    def ask(self, command: str) -> str:
        """Return the line that answers a command."""
        self._say(command)
        line = b""
        while not line.endswith(b"\n"):
            piece = self._receive(1)
            if not piece or len(line) >= _LINE_BYTES:
                raise ConnectionError("this is not RAS")
            line += piece
        return line.decode(errors="replace").strip()

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


# --- its JSON ---


class _RankStatus(msgspec.Struct):
    init_state: int = 0
    async_error: int = 0
    finalize_called: bool = False
    destroy_flag: bool = False
    abort_flag: bool = False


class _Rank(msgspec.Struct):
    rank: int
    host: str = ""
    pid: int = 0
    status: _RankStatus = msgspec.field(default_factory=_RankStatus)
    collective_counts: dict[str, int] = {}


class _MissingStatus(msgspec.Struct):
    unresponsive: bool = True
    considered_dead: bool = False


class _Missing(msgspec.Struct):
    rank: int
    host: str = ""
    pid: int = 0
    status: _MissingStatus = msgspec.field(default_factory=_MissingStatus)


class _Communicator(msgspec.Struct):
    hash: str
    size: int
    secondary_hash: str = ""
    ranks: tuple[_Rank, ...] = ()
    missing_ranks: tuple[_Missing, ...] = ()


class _Report(msgspec.Struct):
    communicators: tuple[_Communicator, ...]
    nccl_version: str = ""


def read_ras(said: str) -> RasReport | None:
    """Read a whole answer to VERBOSE STATUS; None when it is not one."""
    try:
        report = msgspec.json.decode(said, type=_Report)
    except msgspec.MsgspecError:
        return None
    return RasReport(
        report.nccl_version,
        tuple(
            RasCommunicator(
                key=f"{each.hash} {each.secondary_hash}".strip(),
                size=each.size,
                ranks=tuple(map(_rank_of, each.ranks)),
                missing=tuple(map(_missing_of, each.missing_ranks)),
            )
            for each in report.communicators
        ),
    )


def _rank_of(told: _Rank) -> RasRank:
    status = told.status
    return RasRank(
        rank=told.rank,
        host=told.host,
        pid=max(told.pid, 0),
        init_state=status.init_state,
        async_error=status.async_error,
        is_leaving=status.finalize_called or (status.destroy_flag and not status.abort_flag),
        is_aborted=status.abort_flag,
        counts=told.collective_counts,
    )


def _missing_of(told: _Missing) -> RasMissing:
    return RasMissing(
        rank=told.rank,
        host=told.host,
        pid=max(told.pid, 0),
        is_silent=told.status.unresponsive,
        is_dead=told.status.considered_dead,
    )
