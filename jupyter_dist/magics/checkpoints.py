"""The line magics that save variables of all ranks, restore them, and list what there is."""

import shlex
from argparse import Namespace
from typing import TYPE_CHECKING

from jupyter_dist.errors import DistError
from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.command import MagicGroup, Shell, command, say
from jupyter_dist.magics.spmd import finish_view, number_of_cell
from jupyter_dist.options.checkpoint_options import restore_arguments, save_arguments
from jupyter_dist.text.lists import name_some

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.cluster.result import SpmdResult
    from jupyter_dist.protocol.messages import Command


class CheckpointMagics(MagicGroup):
    """`%dist_checkpoint`, `%dist_restore` and `%dist_checkpoints`, for one shell."""

    @command(accepted.CHECKPOINT)
    def dist_checkpoint(self, options: Namespace) -> None:
        """Save variables of all ranks as the next step of a checkpoint.

        Arrays that are equal on all ranks are stored once, others by rank or by shard. A step is
        there as a whole or not at all, and can be restored with any number of ranks. In cells,
        `checkpoint.save(directory, tree)` does the same for any tree of arrays.
        """
        from jupyter_dist.cluster.checkpoints import saving

        cluster = self._current.get()
        run_shown(cluster, saving(**save_arguments(options)), self._shell)
        if not options.wait:
            cluster.is_saving_behind = True

    @command(accepted.RESTORE)
    def dist_restore(self, options: Namespace) -> None:
        """Restore variables of all ranks from a checkpoint, also with another number of ranks.

        Everything is verified first: if something is damaged or missing, all variables stay as
        they are. Objects that only pickle can read are left out without --objects.
        """
        from jupyter_dist.cluster.checkpoints import restoring

        cluster = self._current.get()
        run_shown(cluster, restoring(**restore_arguments(options)), self._shell)

    @command(accepted.CHECKPOINTS)
    def dist_checkpoints(self, options: Namespace) -> None:
        """List the checkpoints of a directory, as the hosts of the cluster see it.

        Without a cluster, as this machine sees it.
        """
        from jupyter_dist.cluster.checkpoints import list_here

        cluster = self._current.running
        look = list_here if cluster is None else cluster.checkpoints
        say(str(look(options.directory)))


def resume_new(cluster: "Cluster", directory: str, shell: Shell) -> None:
    """Restore on a cluster that has just been started; should it fail, that runs all the same."""
    try:
        resume_shown(cluster, directory, shell)
    except BaseException:
        say(
            f"cluster {cluster.name} runs, and nothing was restored; see the error. %dist_restore "
            "tries again without another start, %dist_checkpoints lists what is there."
        )
        raise


def resume_shown(cluster: "Cluster", directory: str, shell: Shell) -> tuple[str, ...]:
    """Restore the newest checkpoint of a directory (empty: where was saved last); give its names.

    They are those that all ranks have now.
    """
    from jupyter_dist.cluster.checkpoints import read_restored, resuming

    result = run_shown(cluster, resuming(cluster, directory, number_of_cell(shell)), shell)
    restored = read_restored(result)
    return tuple(name for name in restored.restored if name not in restored.not_restored)


def tell_resumable(cluster: "Cluster", shell: Shell) -> None:
    """Say which checkpoint a healed cluster could go on from; nothing when there is none."""
    from jupyter_dist.cluster.checkpoints import look

    try:
        found = look(cluster, label=number_of_cell(shell))
    except DistError:  # the ranks are replaced all the same: that is what was asked for
        return
    newest = found.newest
    if newest is not None:
        say(
            f"all ranks can go back to step {newest.step} ({name_some(newest.variables)}), saved "
            f"at {newest.when} UTC: %dist_restore --dir {shlex.quote(found.directory)}"
        )


def run_shown(cluster: "Cluster", order: "Command", shell: Shell) -> "SpmdResult":
    """Have ranks carry out a command, shown as a cell is; what went wrong is raised."""
    from jupyter_dist.views.cell.cell_output import choose_view

    view = choose_view(shell, world_size=cluster.world_size)
    try:
        result = cluster.run_command(order, label=number_of_cell(shell), watcher=view)
    except BaseException:
        view.finish(None)
        raise
    finish_view(view, result)
    return result
