"""What the engine needs of each framework, and what becomes of a cell that has failed."""

from time import monotonic
from typing import ClassVar, NamedTuple

from jupyter_dist.errors import PeerFailed
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.rank_context import RankContext
from jupyter_dist.model.hosts.rank import name_rank
from jupyter_dist.model.ranks.initialized import Formed

GRACE_S = 0.25
"""A collective that others have been through by then ends on its own; it is not to be torn."""


class Failure(NamedTuple):
    """Which rank of the cell has failed (-1: the cell was interrupted), and when we knew."""

    rank: int
    reason: str
    since_s: float

    def to_error(self) -> PeerFailed:
        """Return what calls raise that need the rank."""
        return PeerFailed(self.rank, self.reason, name_rank(self.rank))


class Framework:
    """One framework on one rank. All is called by the main thread, unless it says otherwise."""

    name: ClassVar[str]

    def __init__(self, context: RankContext, hooks: ImportHooks) -> None:
        self._context = context
        self._hooks = hooks
        self._failure: Failure | None = None
        """The first of this cell that was told."""

    def _as_formed(self, settings: str, *, is_broken: bool = False) -> Formed:
        """Return what stands with all ranks of the present generation."""
        generation, world_size = self._context.generation, self._context.info.world_size
        return Formed(self.name, generation, world_size, is_broken=is_broken, settings=settings)

    def install(self) -> None:
        """Be ready for its import, without importing it; once in the life of a rank."""
        raise NotImplementedError

    def formed(self) -> Formed | None:
        """Return what stands at the end of a generation; None: it has formed nothing here."""
        raise NotImplementedError

    def form(self, settings: str, reason: str) -> tuple[str, ...]:
        """Form it again with all ranks of the present generation, between two cells.

        Works where it was never imported, and gives up what was formed before. Gives sentences
        for the user: which variables belong to what was before, and what to do with them.
        Raises FrameworkError, CommunicatorError.
        """
        raise NotImplementedError

    def prepare_cell(self, code: str) -> None:
        """Get ready for a cell, inside it: an interrupt may come. Must be quick if not concerned.

        Raises what the cell is to end with.
        """

    def break_off(self, failed_rank: int, reason: str) -> None:
        """Note that a rank of this cell has failed (-1: the cell was interrupted); link thread.

        Collectives that begin from now on raise PeerFailed; for those under way see `look`.
        """
        if self._failure is None:
            self._failure = Failure(failed_rank, reason, monotonic())

    def look(self) -> None:
        """Look after collectives under way, twenty times a second while a cell runs; link thread.

        One that is still under way GRACE_S after `break_off` is torn: its call raises.
        """

    def settle(self) -> None:
        """Wait, at the end of a cell, until what it has begun is done; raises what it ends with.

        In slices of at most 0.2 s, so that an interrupt comes through.
        """

    def explain(self, error: BaseException) -> BaseException | None:
        """Return what a cell's error really means (as PeerFailed); None: what it says."""
        del error
        return None

    def expect_cell(self) -> None:
        """Forget what `break_off` has said: the next cell has come; link thread."""
        self._failure = None

    def leave(self) -> None:
        """Let go of everything; the process ends. Must not take longer than 2 s."""
