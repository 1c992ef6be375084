"""The line magics that ask ranks while they are busy: who has what, and who does what."""

from argparse import Namespace
from collections.abc import Callable, Mapping

from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.command import CurrentCluster, Shell, command, say, word_for


class LookingMagics:
    """`%dist_who`, `%dist_stacks` and `%dist_explain`, for one shell."""

    def __init__(self, shell: Shell, current: CurrentCluster) -> None:
        self._shell = shell
        self._current = current

    @command(accepted.WHO)
    def dist_who(self, options: Namespace) -> None:
        """List the variables of all ranks: type, shape, dtype, memory, and what differs.

        A name that some ranks lack, and values that are not the same on all, are marked ▶. Ranks
        may be busy: from a second notebook, or `jupyter dist who`, also while a cell runs.
        """
        from jupyter_dist.views.names_table import names_bundle

        self._show(names_bundle(self._current.get().who(options.patterns, options.ranks)))

    @command(accepted.STACKS)
    def dist_stacks(self, options: Namespace) -> None:
        """Show what every rank is doing, ranks with the same stack together.

        A rank whose interpreter does not answer is looked at from outside.
        """
        from jupyter_dist.views.stacks_table import stacks_bundle

        self._show(stacks_bundle(self._current.get().stacks(options.ranks, native=options.native)))

    @command(accepted.EXPLAIN)
    def dist_explain(self, options: Namespace) -> None:  # noqa: ARG002
        """Say who waits for whom in the running cell, how ranks were lost, and what can be done."""
        say(word_for(self._shell, self._current.get().explain()))

    def _show(self, bundle: Mapping[str, str]) -> None:
        """Display it in a notebook; write its text elsewhere."""
        if getattr(self._shell, "kernel", None) is None:
            say(bundle["text/plain"].rstrip())
            return
        from IPython.display import display

        show: Callable[..., object] = display
        show(bundle, raw=True)
