"""What communicators of host and of device memory have in common: who they are, settings."""

from jupyter_dist.collective.along_axes import AlongAxes
from jupyter_dist.collective.call_log import CallLog
from jupyter_dist.collective.objects.object_collectives import ObjectCollectives
from jupyter_dist.errors import UsageError

LONGEST_TIMEOUT_S = 1e8
"""Three years: what every timer takes."""


class BaseCommunicator(AlongAxes, ObjectCollectives):
    """Exchanges arrays between ranks; every rank makes the same calls in the same order.

    Arrays of numpy, torch, JAX and CuPy are taken as they are, without a copy if they are
    C-contiguous; results come in the library of the input. Scalars and lists are taken as
    `numpy.asarray` takes them; a scalar gives a scalar. Accepted are bool, integers, floats
    (bfloat16 and the float8 types too) and complex numbers. Host memory and device memory each
    have their way; no call mixes them.

    A plain call returns a new array and leaves its input as it was. With `out=` the result goes
    there: it has the shape of the result, or is flat, in the order of C or of Fortran. In host
    memory that happens only once the whole operation has succeeded; where `out` is the input
    itself, and on devices, a failed operation leaves it half done.

    `op` is sum, prod, min, max or avg; on bool, sum and max are a logical or, prod and min an and.
    Integers keep their dtype and wrap around, as in numpy; they have no avg.

    Every method raises UsageError (a ValueError) or TypeError before anything is sent when its
    arguments cannot work, and otherwise CommunicatorError: PeerFailed when another rank raised,
    left or was lost; CollectiveMismatch when ranks called different things; CollectiveTimeout
    after `timeout_s`. After such an error the communicator is broken: later calls raise it again.

    Calls on host memory return when they are done, and take no `stream`. Calls on device memory
    are queued on the `stream` of the call, or else of the communicator, and return at once; what
    becomes of them shows at the latest when the cell ends.
    """

    kind: str
    """ring or nccl."""

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
        if ranks is not None:
            members = self.world_ranks
            ranks = frozenset(members[rank] for rank in ranks)
        self.log.scope.participants = ranks

    def __repr__(self) -> str:
        where = f"group {self.group_label}, " if self.group_label else ""
        return f"<{self.kind} communicator: {where}rank {self.rank} of {self.size}>"
