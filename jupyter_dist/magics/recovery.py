"""The line magics for lost ranks: replace them, or go on without them."""

from argparse import Namespace
from typing import TYPE_CHECKING

from msgspec.structs import replace

from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.checkpoints import resume_shown, tell_resumable
from jupyter_dist.magics.command import MagicGroup, command, find_display, say

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.cluster.healing import Healed
    from jupyter_dist.views.stages.stage_view import StageView


class RecoveryMagics(MagicGroup):
    """`%dist_heal` and `%dist_shrink`, for one shell."""

    @command(accepted.HEAL)
    def dist_heal(self, options: Namespace) -> None:
        """Replace lost ranks; the others keep their processes and everything in them.

        New ranks run the cells that began with `%%spmd --setup`, and a new generation is formed.
        What they lack then, and others have, is listed. With --ranks also ranks that live are
        replaced: so a rank is replaced that no interrupt reaches. With --resume all ranks then
        go back to the newest checkpoint, those that have lived on as well.
        """
        cluster = self._current.get()
        with self._stages() as view:
            healed = cluster.heal(options.ranks, on_stage=view.on_stage)
        if options.resume is None:
            say(str(healed))
            tell_resumable(cluster, self._shell)
        else:
            self._resume(cluster, options.resume, healed)

    @command(accepted.SHRINK)
    def dist_shrink(self, options: Namespace) -> None:  # noqa: ARG002
        """Go on without lost ranks; the others keep everything, and are numbered without gaps.

        `rank` and `world_size` change accordingly; setup cells of the lost ranks are forgotten.
        """
        cluster = self._current.get()
        with self._stages() as view:
            shrunken = cluster.shrink(on_stage=view.on_stage)
        say(str(shrunken))

    def _resume(self, cluster: "Cluster", directory: str, healed: "Healed") -> None:
        """Go back to a checkpoint, and tell which names new ranks lack even then."""
        say(str(replace(healed, missing={})))
        missing = healed.missing
        try:
            restored = set(resume_shown(cluster, directory, self._shell))
            missing = {name: ranks for name, ranks in missing.items() if name not in restored}
        finally:
            for line in replace(healed, missing=missing).describe_missing():
                say(line)

    def _stages(self) -> "StageView":
        from jupyter_dist.views.stages.stage_view import StageView

        display = find_display(self._shell)
        keeps_times = display is None or self._current.style.times
        return StageView(display=display, keeps_times=keeps_times)
