"""Which agents may attend: those that were started for a host, and so many that join by file."""

import re
import threading
from collections.abc import Collection, Iterable

from jupyter_dist.coordinator.agents.certificates import common_name
from jupyter_dist.launch.files.join_file import JOINER

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")


class NotAdmitted(Exception):
    """This agent is not wanted; the text says why, to the agent."""


class Admission:
    """Says who an agent is; asked from the threads of the agents' streams."""

    def __init__(self, invited: Iterable[str], seats: int) -> None:
        self._invited = frozenset(invited)
        self._seats = seats
        self._joined: list[str] = []
        self._taken = set(self._invited)
        """All names that agents have, or will come with."""
        self.places = len(self._taken) + seats
        """So many agents may attend."""
        self._lock = threading.Lock()

    @property
    def is_full(self) -> bool:
        """Nobody else can join by file."""
        with self._lock:
            return len(self._joined) >= self._seats

    def admit(self, common_names: Collection[bytes], wished: str) -> str:
        """Return the host name of an agent with this certificate; raises NotAdmitted."""
        if JOINER.encode() in common_names:
            return self._admit_joiner(wished)
        if wished not in self._invited or common_name(wished).encode() not in common_names:
            raise NotAdmitted(f"host {wished!r} was not invited")
        return wished

    def _admit_joiner(self, wished: str) -> str:
        if _NAME.fullmatch(wished) is None:
            raise NotAdmitted(f"{wished!r} is no host name; give one with --name")
        with self._lock:
            if len(self._joined) >= self._seats:
                raise NotAdmitted(
                    f"this join file is used up: {self._seats} of {self._seats} agents have "
                    f"joined ({', '.join(self._joined)})"
                )
            name, number = wished, 2
            while name in self._taken:
                name, number = f"{wished}-{number}", number + 1
            self._joined.append(name)
            self._taken.add(name)
            return name
