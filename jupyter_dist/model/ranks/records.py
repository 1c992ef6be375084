"""What the recorders of ranks hold: their last collectives and cells.

Times are nanoseconds of the host's CLOCK_MONOTONIC.
"""

import re

import msgspec

from jupyter_dist.errors import UnknownRanks
from jupyter_dist.model.hosts.rank import parse_ranks, tell_coordinates

SYMMETRIC = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""In these no rank has a part of its own, so all ranks come to them on the same line of code."""

MESSAGES = frozenset({"send", "recv", "send_recv", "group"})
"""What ranks do two by two, or each for itself; their numbers mean nothing to other ranks."""
FRAMEWORKS = {"jax": "JAX", "torch": "torch", "cupy": "CuPy", "mpi": "MPI"}
"""Whose own collective a call is, by the name behind the ranks of its group: `0-3~jax`."""
DEFAULT_LAST = 20
"""Calls that a table shows unless told otherwise."""
_PEER_WORDS = {"send": "dest", "recv": "source", "send_recv": "dest"}
_MOST_RANKS = 1 << 16
_FROM_FIRST = re.compile(r"0-\d+")


class CallRecord(msgspec.Struct, frozen=True, array_like=True):
    """One collective, message or object collective of one rank. Reads as the user wrote it."""

    sequence: int
    operation: str
    start_ns: int
    end_ns: int = 0
    """0 while it runs."""
    has_failed: bool = False
    reduction: str = ""
    dtype: str = ""
    """As people write it: float32."""
    shape: str = ""
    root: int = -1
    nbytes: int = 0
    group: str = ""
    """The communicator, if it is not ours of all ranks: `0,2`, `0,2~1`, or `0-3~jax`."""
    site: str = ""
    """Where the cell called it, as `In[3]:7`."""

    @property
    def framework(self) -> str:
        """Whose own collective it is, as `JAX`; empty: it is one of ours."""
        return find_framework(self.group)

    @property
    def is_symmetric(self) -> bool:
        """No rank has a part of its own in it."""
        return is_symmetric(self.operation, self.group)

    @property
    def is_message(self) -> bool:
        """It concerns single ranks, not all of a communicator."""
        return self.operation in MESSAGES

    @property
    def counter(self) -> str:
        """Name what counts it, beside others of its communicator."""
        if self.is_message:
            return "messages"
        if self.framework:
            return "collectives"
        return "objects" if "object" in self.operation else "collectives"

    @property
    def meaning(self) -> tuple[str, str, str, str, int]:
        """Return what all ranks of a collective must agree on."""
        return self.operation, self.dtype, self.shape, self.reduction, self.root

    @property
    def arguments(self) -> str:
        """Write what it was given, as `float32[4], sum`."""
        parts = [f"{self.dtype}[{self.shape}]"] if self.dtype else []
        if self.reduction:
            parts.append(self.reduction)
        if self.root >= 0:
            parts.append(f"{_PEER_WORDS.get(self.operation, 'root')}={self.root}")
        return ", ".join(parts)

    def __str__(self) -> str:
        """Read as `all_reduce(float32[4], sum)`, a program of JAX as `jit(step)`."""
        is_whole = self.operation.endswith(")") and not self.arguments
        return self.operation if is_whole else f"{self.operation}({self.arguments})"


class CellRecord(msgspec.Struct, frozen=True, array_like=True):
    """One cell of one rank."""

    label: str
    """As `In[3]`."""
    start_ns: int
    end_ns: int = 0
    """0 while it runs."""
    cell_id: str = ""
    """The coordinator's name of it: the same on all ranks, and no other cell has it."""


class RankRecords(msgspec.Struct, frozen=True):
    """What one rank has done last, oldest first; also of a rank that is stuck or lost."""

    rank: int
    calls: tuple[CallRecord, ...]
    cells: tuple[CellRecord, ...]
    omitted: int = 0
    """Older calls that the recorder has forgotten."""
    left_out: int = 0
    """Older calls that were not asked for."""
    has_ended: bool = False
    """Its process is gone: what had not ended then never will."""
    problem: str = ""
    """Why nothing could be read, or empty."""


class HostRecords(msgspec.Struct, frozen=True):
    """What the ranks of one host have done last."""

    host: str
    monotonic_ns: int
    """CLOCK_MONOTONIC of the host at the moment of reading, and"""
    time_ns: int
    """its time of day at the same moment."""
    ranks: tuple[RankRecords, ...]


def group_ranks(group: str) -> tuple[int, ...]:
    """Return the members of a group, as `0,2-3~1` names them; empty if the name was shortened."""
    try:
        return parse_ranks(group.partition("~")[0], _MOST_RANKS)
    except UnknownRanks:
        return ()


def name_group(group: str) -> str:
    """Name a group by its ranks only."""
    return group.partition("~")[0]


def find_framework(group: str) -> str:
    """Name the framework whose group it is, as `JAX`; empty: it is one of ours."""
    return FRAMEWORKS.get(group.partition("~")[2], "")


def tell_group(group: str) -> str:
    """Return whose a call is, behind its name: ` of group 0,2`, ` of JAX`, or nothing."""
    framework, ranks = find_framework(group), name_group(group)
    if not framework:
        return f" of group {ranks}{tell_coordinates(group_ranks(group))}" if group else ""
    is_everyone = not ranks or ranks == "0" or _FROM_FIRST.fullmatch(ranks)
    return f" of {framework}" if is_everyone else f" of {framework} on {ranks}"


def is_symmetric(operation: str, group: str = "") -> bool:
    """Return whether all ranks come to such a call on the same line, and leave it together.

    A program of JAX is the same on all devices; torch has names like `all_gather_into_tensor`.
    """
    framework = find_framework(group)
    if not framework:
        return operation in SYMMETRIC
    return framework == FRAMEWORKS["jax"] or operation.startswith(SYMMETRIC)
