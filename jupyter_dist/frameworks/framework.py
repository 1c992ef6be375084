"""What the engine needs of each framework."""

from typing import ClassVar, Protocol

from jupyter_dist.model.formed import Formed


class Framework(Protocol):
    """One framework on one rank. All is called by the main thread, unless it says otherwise."""

    name: ClassVar[str]

    def install(self) -> None:
        """Be ready for its import, without importing it; once in the life of a rank."""

    def formed(self) -> Formed | None:
        """Say what stands at the end of a generation; None: it has formed nothing here."""

    def form(self, settings: str, reason: str) -> tuple[str, ...]:
        """Form it anew with all ranks of the present generation, between two cells.

        Works where it was never imported, and gives up what was formed before. Gives sentences
        for the user: which variables belong to what was before, and what to do with them.
        Raises FrameworkError, CommunicatorError.
        """

    def prepare_cell(self, code: str) -> None:
        """Get ready for a cell, inside it: an interrupt may come. Must be quick if not concerned.

        Raises what the cell is to end with.
        """

    def break_off(self, failed_rank: int, reason: str) -> None:
        """Note that a rank of this cell has failed (-1: the cell was interrupted); link thread.

        Collectives that begin from now on raise PeerFailed; for those under way see `look`.
        """

    def look(self) -> None:
        """Look after collectives under way, twenty times a second while a cell runs; link thread.

        One that is still under way GRACE_S after `break_off` is torn: its call raises.
        """

    def settle(self) -> None:
        """Wait, at the end of a cell, until what it has begun is done; raises what it ends with.

        In slices of at most 0.2 s, so that an interrupt comes through.
        """

    def explain(self, error: BaseException) -> BaseException | None:
        """Give what a cell's error really means (PeerFailed, say); None: it means what it says."""

    def expect_cell(self) -> None:
        """Forget what `break_off` has said: the next cell has come; link thread."""

    def leave(self) -> None:
        """Let go of everything; the process ends. Must not take longer than 2 s."""


GRACE_S = 0.25
"""A collective that others have been through by then ends by itself; it is not to be torn."""
