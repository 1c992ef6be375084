"""What the kernel logs while we look, where it may be read: kills for memory, errors of GPUs."""

import os
import re
from collections import deque

KMSG = "/dev/kmsg"
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
"""The kernel speaks of processes by their numbers there."""
_RECORD_BYTES = 8192
_MOST_RECORDS = 2000
"""So many are read at once: a few milliseconds."""
_KEPT = 200
_KILLED = "Killed process "
_OF_INTEREST = re.compile(rf"{_KILLED}\d+|NVRM: Xid ")
_XID_PID = re.compile(r"\bpid='?(\d+)")
_ADDRESS = re.compile(r"([0-9a-f]+):([0-9a-f]+):([0-9a-f]+)", re.IGNORECASE)
"""Of a device on the PCI bus: domain, bus and slot, with as many zeros as each program likes."""


class KernelLog:
    """The end of the kernel's log since this was made; empty where it may not be read."""

    def __init__(self, path: str = KMSG) -> None:
        self._lines: deque[tuple[float, str]] = deque(maxlen=_KEPT)
        self._knows_pids = _pid_namespace() == _FIRST_PID_NAMESPACE
        self._file = -1
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError:
            self.close()

    def read(self, now_s: float) -> None:
        """Take in what is new, without waiting for anything."""
        for _ in range(_MOST_RECORDS if self._file >= 0 else 0):
            try:
                record = os.read(self._file, _RECORD_BYTES)
            except BrokenPipeError:
                continue  # records were overwritten before they were read
            except OSError:
                return
            if not record:
                return
            text = record.decode(errors="replace").partition(";")[2].split("\n")[0]
            if _OF_INTEREST.search(text):
                self._lines.append((now_s, text))

    def kills(self, pid: int, since_s: float) -> list[str]:
        """Return the lines which say that this process was killed for memory."""
        said = re.compile(rf"{_KILLED}{pid}\b")
        return [text for text in self._since(since_s) if self._knows_pids and said.search(text)]

    def names_others(self, pid: int, since_s: float) -> bool:
        """Return whether processes were killed for memory, and this one is not among them."""
        named = [text for text in self._since(since_s) if self._knows_pids and _KILLED in text]
        return bool(named) and not self.kills(pid, since_s)

    def gpu_errors(self, pid: int, bus: str, since_s: float) -> list[str]:
        """Return the Xid lines about a GPU at this address on the PCI bus that no other caused."""
        return [text for text in self._since(since_s) if bus and self._is_about(text, pid, bus)]

    def _is_about(self, text: str, pid: int, bus: str) -> bool:
        if _address(text.partition("PCI:")[2]) != _address(bus):
            return False
        by = _XID_PID.search(text)
        return by is None or not self._knows_pids or int(by[1]) == pid

    def _since(self, since_s: float) -> list[str]:
        return [text for at_s, text in self._lines if at_s >= since_s]

    def close(self) -> None:
        """Stop reading."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def _address(text: str) -> tuple[int, ...]:
    found = _ADDRESS.match(text)
    return tuple(int(part, 16) for part in found.groups()) if found else ()


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
