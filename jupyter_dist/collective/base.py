"""What communicators of host memory and of device memory have in common: who they are, settings."""

from jupyter_dist.collective.call_log import CallLog
from jupyter_dist.collective.objects.object_collectives import ObjectCollectives
from jupyter_dist.errors import UsageError

LONGEST_TIMEOUT_S = 1e8
"""Three years: what every timer takes."""


class BaseCommunicator(ObjectCollectives):
    """A communicator with a log of its calls, whose scope it shares with what is split off."""

    kind: str

    def __init__(self, log: CallLog) -> None:
        super().__init__(log.group, log.recorder, log.control)
        self.log = log
        """The order of its calls, and what broke it."""

    @property
    def timeout_s(self) -> float:
        """Deadline for each operation in seconds, here and in what is split off."""
        return self.log.scope.timeout_s

    @timeout_s.setter
    def timeout_s(self, seconds: float) -> None:
        if not 0 < seconds <= LONGEST_TIMEOUT_S:
            raise UsageError(
                f"timeout_s={seconds!r} is not accepted. Accepted: more than 0 and at most "
                f"{LONGEST_TIMEOUT_S:g} s."
            )
        self.log.scope.timeout_s = seconds

    @property
    def check(self) -> bool:
        """Ranks compare each collective before they begin it, here and in what is split off."""
        return self.log.scope.is_checked

    @check.setter
    def check(self, is_wanted: bool) -> None:
        self.log.scope.is_checked = bool(is_wanted)

    @property
    def participants(self) -> frozenset[int] | None:
        """The ranks that run the current cell; None means all."""
        return self.log.participants

    @participants.setter
    def participants(self, ranks: frozenset[int] | None) -> None:
        members = self.world_ranks
        self.log.scope.participants = (
            None if ranks is None else frozenset(members[rank] for rank in ranks)
        )

    def __repr__(self) -> str:
        where = f"group {self.group_label}, " if self.group_label else ""
        return f"<{self.kind} communicator: {where}rank {self.rank} of {self.size}>"
