"""`%dist_debug`: have ranks stop in the debugger, now, at an error, or where they differ."""

from argparse import Namespace

from jupyter_dist.errors import UsageError
from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.attach import follow_cell
from jupyter_dist.magics.command import MagicGroup, command, say
from jupyter_dist.model.hosts.rank import name_ranks, parse_ranks


class DebugMagics(MagicGroup):
    """`%dist_debug`, for one shell."""

    @command(accepted.DEBUG)
    def dist_debug(self, options: Namespace) -> None:
        """Stop ranks of the running cell in the debugger, wherever they are; without RANKS all.

        The cell, which runs in the background or was sent from elsewhere, is shown, and the prompt
        below it. --on-error and --on-mismatch are for every `%%spmd` of this notebook from now on:
        a rank that raises keeps its frames until you let it go on, and its peers wait.
        """
        cluster = self._current.get()
        if options.off or options.on_error or options.on_mismatch:
            self._choose(options)
            return
        ranks = None
        if options.ranks is not None:
            ranks = parse_ranks(options.ranks, cluster.world_size)

        def stop(_cell: object) -> None:
            say(_tell(cluster.stop_ranks(ranks)))

        follow_cell(self._shell, cluster, self._current.style, stop)

    def _choose(self, options: Namespace) -> None:
        from jupyter_dist.protocol.messages import Stops

        if options.ranks is not None:
            raise UsageError(
                f"%dist_debug {options.ranks} stops ranks now; --on-error, --on-mismatch and --off "
                "are for the cells that follow, on all their ranks. Give one of both."
            )
        if options.off:
            self._current.stops = None
            say("ranks stop at breakpoints only")
            return
        self._current.stops = Stops(on_error=options.on_error, on_mismatch=options.on_mismatch)
        what = "a rank that raises stops there"
        if options.on_mismatch:
            what = "collectives are compared, and all ranks stop at the call where they differ"
        say(f"from the next %%spmd on {what}; %dist_debug --off ends that")


def _tell(ranks: tuple[int, ...]) -> str:
    if not ranks:
        return "no rank that was asked for runs a cell, or all are in the debugger already"
    return f"{name_ranks(ranks)} will stop at the next line of Python"
