"""What communicators know of axes: where this rank is, and the communicators along them."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from msgspec.structs import replace

from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.axes import Axes, write_sizes


class AlongAxes:
    """The axes that `%dist_axes` has named over the ranks; a communicator that was split has none.

    `coordinates` and `axes` are empty without any.
    """

    rank: int
    group_label: str
    _axes = Axes()
    _along: dict[tuple[str, ...], Any]

    def take_axes(self, axes: Axes) -> None:
        """Know these axes from now on; communicators along those before are let go of."""
        if replace(axes, version=self._axes.version) != self._axes:
            self._along = {}
        self._axes = axes

    @property
    def axes(self) -> dict[str, int]:
        """The size of each axis, as `{"data": 4, "model": 2}`."""
        return self._axes.shape

    @property
    def coordinates(self) -> dict[str, int]:
        """Where this rank is along each axis, as `{"data": 1, "model": 0}`."""
        return self._axes.coordinates(self.rank)

    def axis(self, *names: str) -> Self:
        """Return the communicator of the ranks that differ from this one in these axes only.

        They are ordered by their coordinates. It is made at the first call, to which all of them
        must come, and the same one until the next generation. Raise UsageError for an axis that
        there is not.
        """
        claim = f"comm.axis({', '.join(map(repr, names))})"
        if self.group_label:
            raise UsageError(f"{claim}: axes are over all ranks. Call it on `comm` itself.")
        if not names or any(name not in self._axes.names for name in names):
            known = f"the axes are {write_sizes(self.axes)}" if self._axes else str(self._axes)
            raise UsageError(f"{claim}: there is no such axis; {known}.")
        wanted = tuple(name for name in self._axes.names if name in names)
        if wanted not in self._along:
            members = self._axes.along(self.rank, wanted)
            self._along[wanted] = self._split_off(members, claim)
        made: Self = self._along[wanted]
        return made

    @abstractmethod
    def _split_off(self, members: Sequence[int], claim: str) -> Self:
        """Make a communicator of these ranks, in this order; all of them call it."""
