"""Which processes of this host listen at a port, for errors that name them."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_LISTENS = "0A"
_LONGEST = 80
"""Characters of a command line that are shown."""


class Holder(NamedTuple):
    """A process that listens."""

    pid: int
    command: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command})" if self.command else f"process {self.pid}"

    @property
    def is_this_process(self) -> bool:
        """Whether this process listens itself."""
        return self.pid == os.getpid()

    @property
    def is_of_cluster(self) -> bool:
        """Whether it is a rank that the parent of this rank has started, or was started by one."""
        import psutil

        with contextlib.suppress(OSError, psutil.Error):
            # Each rank leads the session of all that its cells start.
            leader = os.getsid(self.pid)
            return leader == os.getsid(0) or psutil.Process(leader).ppid() == os.getppid()
        return False


def find_holders(port: int) -> list[Holder]:
    """Return who listens at this port; processes of other users are not seen, and left out."""
    sockets = {link for link, its_port in _list_listening() if its_port == port}
    if not sockets:
        return []
    pids = (name for name in os.listdir("/proc") if name.isdecimal())
    return [
        Holder(int(pid), _read_command(pid)) for pid in pids if not sockets.isdisjoint(_links(pid))
    ]


def list_own_ports() -> set[int]:
    """Return the ports that this process listens at."""
    own = set(_links("self"))
    return {port for link, port in _list_listening() if link in own}


def name_holders(holders: list[Holder]) -> str:
    """Return the first of them in words, as `process 4711 (python serve.py)`."""
    return str(holders[0]) if holders else "a process that this user may not see"


def _list_listening() -> Iterator[tuple[str, int]]:
    """Yield the sockets that listen, as links of /proc name them, each with its port."""
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/self/net", table).read_text().splitlines()[1:]:
                _number, local, _peer, state, *_rest = parts = line.split()
                if state == _LISTENS:
                    yield f"socket:[{parts[9]}]", int(local.rpartition(":")[2], 16)


def _links(pid: str) -> Iterator[str]:
    """Yield what the descriptors of a process stand for."""
    with contextlib.suppress(OSError):  # it has ended, or is of another user
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{name}")


def _read_command(pid: str) -> str:
    try:
        words = Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    command = " ".join(word.decode(errors="replace") for word in words).strip()
    return command if len(command) <= _LONGEST else f"{command[: _LONGEST - 1]}…"
