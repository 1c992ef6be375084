"""The line magics for lost ranks: replace them, or go on without them."""

from argparse import Namespace
from typing import TYPE_CHECKING

from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.command import CurrentCluster, Shell, command, find_display, say

if TYPE_CHECKING:
    from jupyter_dist.views.stage_view import StageView


class MendingMagics:
    """`%dist_heal` and `%dist_shrink`, for one shell."""

    def __init__(self, shell: Shell, current: CurrentCluster) -> None:
        self._shell = shell
        self._current = current

    @command(accepted.HEAL)
    def dist_heal(self, options: Namespace) -> None:
        """Replace lost ranks; the others keep their processes and everything in them.

        New ranks run the cells that began with `%%spmd --setup`, and a new generation is formed.
        What they lack then, and others have, is listed. With --ranks also ranks that live are
        replaced: so one gets rid of a rank that is deaf to interrupts.
        """
        cluster = self._current.get()
        with self._stages() as view:
            healed = cluster.heal(options.ranks, on_stage=view.on_stage)
        say(str(healed))

    @command(accepted.SHRINK)
    def dist_shrink(self, options: Namespace) -> None:  # noqa: ARG002
        """Go on without lost ranks; the others keep everything, and are numbered without gaps.

        `rank` and `world_size` change accordingly; setup cells of the lost ranks are forgotten.
        """
        cluster = self._current.get()
        with self._stages() as view:
            shrunken = cluster.shrink(on_stage=view.on_stage)
        say(str(shrunken))

    def _stages(self) -> "StageView":
        from jupyter_dist.views.stage_view import StageView

        return StageView(display=find_display(self._shell))
