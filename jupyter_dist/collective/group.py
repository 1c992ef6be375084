"""Who belongs to a communicator, and what all communicators of a rank have in common."""

from collections import Counter

import msgspec

from jupyter_dist.model.ranks.held_time import HeldTime


class Group(msgspec.Struct, frozen=True):
    """The members of one communicator, and which of them this process is."""

    rank: int
    size: int
    generation: int
    label: str = ""
    """Empty for the communicator of all ranks; else its members in the world, as `0,2`."""
    world_ranks: tuple[int, ...] = ()
    """Rank in the cluster of each member; empty: the same numbers."""

    @property
    def members(self) -> tuple[int, ...]:
        """Rank in the cluster of each member."""
        return self.world_ranks or tuple(range(self.size))

    @property
    def world_rank(self) -> int:
        """Rank in the cluster of this process."""
        return self.members[self.rank]


class Scope:
    """What the communicators that were split off share with the one of all ranks."""

    def __init__(self) -> None:
        self.participants: frozenset[int] | None = None
        """Ranks of the cluster that run the current cell; None means all."""
        self.timeout_s = 60.0
        """Deadline for each operation in seconds."""
        self.held = HeldTime()
        """When ranks were in a debugger, so that deadlines stood still."""
        self.is_checked = False
        """Calls are compared over the control channel before anything moves."""
        self._labels: Counter[str] = Counter()

    def label(self, members: str) -> str:
        """Return a new communicator of these members a name that no other has."""
        self._labels[members] += 1
        count = self._labels[members]
        return members if count == 1 else f"{members}~{count}"
