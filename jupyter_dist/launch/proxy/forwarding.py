"""Whether the Unix socket that ssh was asked for leads to the coordinator: ssh does not look."""

import socket
from pathlib import Path
from typing import Protocol

_TIMEOUT_S = 10.0
_NOT_FORWARDED = (
    "ssh gets there, and its sshd forwards no connection (AllowTcpForwarding is off there{said}). "
    "Ask who runs it, or name a machine behind it that forwards."
)


class Forwarder(Protocol):
    """The ssh that forwards it."""

    @property
    def words(self) -> str:
        """What it has said last; empty: nothing."""

    def ends_soon(self) -> bool:
        """Return whether it has ended, or does at once."""

    def explain(self) -> str:
        """Return why it has ended, in a sentence, with the next step."""


def explain_no_way(path: Path, ssh: Forwarder, timeout_s: float = _TIMEOUT_S) -> str:
    """Return why no coordinator answers there, and the next step; empty: it answers."""
    answer, problem = b"", None
    try:
        with socket.socket(socket.AF_UNIX) as trial:
            trial.settimeout(timeout_s)
            trial.connect(str(path))
            answer = trial.recv(1)
    except ConnectionResetError:
        pass  # closed with a question on its way
    except OSError as error:
        problem = error
    if answer:
        return ""
    if ssh.ends_soon():
        return ssh.explain()
    said = f"; ssh says: {ssh.words}" if ssh.words else ""
    if isinstance(problem, TimeoutError):
        return (
            f"its coordinator says nothing within {timeout_s:g} s over ssh{said}. See whether that "
            "machine is overloaded, and try again."
        )
    if problem is not None:
        return (
            f"ssh gets there, but forwards nothing from {str(path)!r} ({problem}){said}. See what "
            "your ssh configuration says of forwarding."
        )
    return _NOT_FORWARDED.format(said=said)
