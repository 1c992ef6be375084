"""`%dist_attach` and `%dist_output`: find a cluster again, and what its cells have said."""

from argparse import Namespace
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from jupyter_dist.errors import UsageError
from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.command import CurrentCluster, MagicGroup, Shell, command, is_notebook, say
from jupyter_dist.magics.spmd import finish_view, read_shown
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.options.option import given_options
from jupyter_dist.options.output_options import OutputStyle, given_style, read_style, tell_style
from jupyter_dist.options.start_options import WayOptions

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.protocol.messages import KeptCell
    from jupyter_dist.views.cell.cell_output import CellOutputView


class AttachMagics(MagicGroup):
    """`%dist_attach` and `%dist_output`, for one shell."""

    @command(accepted.ATTACH)
    def dist_attach(self, options: Namespace) -> None:
        """Speak to a cluster that is already running, for example after a kernel restart.

        A cell that runs is shown from its beginning to its end, as if it had been sent from here;
        Ctrl-C (■) interrupts it. One notebook or program runs cells on a cluster; with --watch
        this one looks on beside it, and ■ only ends the looking. --coordinator HOST looks for it
        on that machine, by ssh.
        """
        from jupyter_dist.cluster.cluster import Cluster

        way = given_options(options, WayOptions)
        cluster = Cluster.attach(
            options.name, watch=options.watch, take_over=options.take_over, **way
        )
        owner = f"; {cluster.owner} runs cells" if options.watch and cluster.owner else ""
        how = f", to observe it{owner}" if options.watch else ""
        say(f"attached to cluster {cluster.name}: {name_ranks(range(cluster.world_size))}{how}")
        take_up(cluster, self._shell, self._current, options.o)
        if not options.no_follow:
            follow_cell(self._shell, cluster, self._current.style, is_observer=options.watch)

    @command(accepted.OUTPUT)
    def dist_output(self, options: Namespace) -> None:
        """Show again what a cell has said: the last one, or the last with this number.

        The outputs of the last 20 cells are kept as long as the cluster runs: 16 MiB of each, and
        64 MiB in all. Options that say how outputs are shown, without a cell, are for every cell
        from now on.
        """
        style = read_style(options, self._current.style)
        if options.label is not None and options.is_final is not None:
            raise UsageError(
                f"--final and --live are for every cell from now on, not for cell {options.label}, "
                "which has ended. Leave its number out, or the option."
            )
        if options.label is None and given_style(options):
            self._current.style = style
            say(f"every cell is shown by {tell_style(style)} from now on")
            return
        from jupyter_dist.views.tables.kept_cells import kept_cells_text, name_start

        cluster = self._current.get()
        if options.list:
            say(kept_cells_text(cluster.outputs()))
            return
        replay = cluster.replay(options.label)
        state = "runs since" if replay.cell.is_running else "began at"
        say(f"{replay.cell.label} {state} {name_start(replay.cell)}")
        shown = read_shown("--ranks", options.ranks, replay.cell.ranks)
        view = self._view(cluster, replay.cell, shown, style)
        view.finish(replay.show(view))

    def _view(
        self,
        cluster: "Cluster",
        cell: "KeptCell",
        shown: Collection[int] | None = None,
        style: OutputStyle | None = None,
    ) -> "CellOutputView":
        from jupyter_dist.views.cell.cell_output import choose_view

        log_hint = ", ".join(f"{host}:{path}" for host, path in cluster.log_dirs.items())
        world_size = len(cell.ranks)
        return choose_view(
            self._shell,
            world_size=world_size,
            shown=shown,
            style=style or self._current.style,
            log_hint=log_hint,
            axes=cluster.axes,
        )


def follow_cell(
    shell: Shell,
    cluster: "Cluster",
    style: OutputStyle,
    on_followed: Callable[["KeptCell"], None] | None = None,
    *,
    is_observer: bool = False,
) -> None:
    """Show the running cell to its end, with what ranks ask; say so if none runs.

    `on_followed` is called when what ranks ask comes to this shell.
    """
    from jupyter_dist.views.tables.kept_cells import name_start
    from jupyter_dist.views.widgets.live_view import choose_live_view

    cell = next(iter(cluster.outputs()[-1:]), None)
    if cell is None:
        return
    if not cell.is_running:
        say(f"no cell runs; %dist_output shows what the last one, {cell.label}, has said")
        return
    say(f"{cell.label} runs since {name_start(cell)}")
    view = choose_live_view(shell, cluster, len(cell.ranks), style=style)
    try:
        result = cluster.follow(view, on_followed) or cluster.replay(cell.label).show(view)
    except BaseException as problem:
        view.finish(None)
        if is_observer and isinstance(problem, KeyboardInterrupt):
            say(f"{cell.label} goes on; %dist_attach {cluster.name} --watch looks on again")
            return
        raise
    finish_view(view, result)


def take_up(
    cluster: "Cluster", shell: Shell, current: CurrentCluster, name: str | None = None
) -> None:
    """Let the magics of this shell speak to this cluster, and show it in a notebook.

    With a name the Cluster is a variable of the shell, too.
    """
    if name is not None:
        shell.push({name: cluster})
    before = current.set(cluster)
    if before is not None and before is not cluster:
        if before.is_running and before.name != cluster.name:
            say(f"cluster {before.name} goes on; %dist_attach {before.name} takes it up again")
        before.detach()  # else it would go on holding the owner's place there
    if is_notebook(shell):
        from jupyter_dist.views.topology.widget import show_topology

        show_topology(cluster, has_measures=current.style.times)
