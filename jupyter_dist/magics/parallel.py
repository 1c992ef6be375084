"""`%dist_ipyparallel`: ipyparallel on the ranks of the notebook's cluster."""

from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING

from jupyter_dist.errors import UsageError
from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.command import CurrentCluster, MagicGroup, Shell, command, say
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.text.plurals import fit

if TYPE_CHECKING:
    from jupyter_dist.frameworks.ipyparallel.client import RanksClient


class ParallelMagics(MagicGroup):
    """`%dist_ipyparallel`, for one shell."""

    def __init__(self, shell: Shell, current: CurrentCluster) -> None:
        super().__init__(shell, current)
        self._client: RanksClient | None = None
        """The one whose view `%px` runs on."""

    @command(accepted.IPYPARALLEL)
    def dist_ipyparallel(self, options: Namespace) -> None:
        """Let programs of ipyparallel run on the ranks: each is an engine, its rank the id.

        `%px` and `%%px` run on all of them (or on --ranks) from then on, in the same processes and
        with the same variables as `%%spmd`; a cell and a task of one rank run one after the other.
        `cluster.ipyparallel()`, or -o NAME, gives the client for views, joblib and dask.
        """
        cluster = self._current.get()
        if options.stop:
            if options.ranks or options.on or options.o:
                raise UsageError("--stop goes alone: it ends the controller for all ranks.")
            was_running = cluster.leave_ipyparallel()
            self._close()
            say("the ipyparallel controller has ended" if was_running else "no controller ran")
            return
        ranks = cluster.select(options.ranks, options.on)
        began_s = monotonic()
        client = cluster.ipyparallel(timeout_s=options.timeout_s)
        with ExitStack() as ending:
            ending.enter_context(client)
            _check_there(ranks, client.ids)
            ending.pop_all()
        self._close()
        self._client = client
        client.activate("all" if ranks is None else list(ranks))
        if options.o is not None:
            self._shell.push({options.o: client})
        took_s = monotonic() - began_s
        say(
            f"{name_ranks(client.ids)} are engines of ipyparallel since {took_s:.1f} s; %px runs "
            f"on {'all of them' if ranks is None else name_ranks(ranks)}"
        )

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _check_there(ranks: Sequence[int] | None, ids: Sequence[int]) -> None:
    """Raise UsageError if some of these ranks are no engines: they are lost."""
    if gone := sorted(set(ranks or ()).difference(ids)):
        verb, them = fit(gone, ("is", "it"), ("are", "them"))
        raise UsageError(
            f"{name_ranks(gone)} {verb} lost, and no engine of ipyparallel. %dist_heal replaces "
            f"{them}; {name_ranks(ids)} can be named."
        )
