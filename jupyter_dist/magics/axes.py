"""`%dist_axes`: names for axes over the ranks."""

from argparse import Namespace

from jupyter_dist.errors import UsageError
from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.command import MagicGroup, command, say


class AxesMagics(MagicGroup):
    """`%dist_axes`, for one shell."""

    @command(accepted.AXES)
    def dist_axes(self, options: Namespace) -> None:
        """Name axes over the ranks, and show which rank is where; without options only that.

        The last axis is the fastest, as in meshes of JAX and torch. `--on data=0` then chooses
        ranks, `comm.axis("data")` is the communicator along an axis, `comm.coordinates` has the
        place of a rank, and errors name it. A cluster that shrinks drops its axes.
        """
        cluster = self._current.get()
        axes = cluster.axes
        if options.sizes is not None and (options.mesh is not None or options.clear):
            raise UsageError("--from and --clear go alone: they name all axes, or none.")
        if options.mesh is not None:
            axes = cluster.name_axes_of(options.mesh)
        elif options.clear or options.sizes is not None:
            axes = cluster.name_axes(options.sizes)
        say(str(axes))
