"""`%dist_profile`, and `%%spmd --profile`: what ranks do with their time and memory."""

from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from jupyter_dist.errors import DistError, UsageError
from jupyter_dist.magics import options as accepted
from jupyter_dist.magics.command import (
    CurrentCluster,
    MagicGroup,
    Shell,
    command,
    say,
    show_markup,
)

if TYPE_CHECKING:
    from jupyter_dist.cluster.profiling.profile import Profile

Value = TypeVar("Value")


class ProfileMagics(MagicGroup):
    """`%dist_profile`, for one shell."""

    @command(accepted.PROFILE)
    def dist_profile(self, options: Namespace) -> None:
        """Look at what ranks do for a while, and show who is slow, and where.

        All ranks at once and on one clock, beside a cell that runs: from a second notebook, a
        terminal (`jupyter dist profile`), or behind `%%spmd --background`. ■ ends it earlier.
        `--with memory` shows the largest allocations, `jax` and `torch` gather the traces of their
        profilers for `--trace`. `--native` shows what C and C++ do, too.
        """
        from jupyter_dist.cluster.profiling.files import check_files, write_files

        check_files(options)
        cluster = self._current.get()
        ranks = cluster.select(options.ranks, options.on)
        profile = cluster.profile(options.seconds, ranks, mode=options.mode, native=options.native)
        show_profile(self._shell, profile)
        for line in write_files(profile, options):
            say(line)
        if options.o is not None:
            self._shell.push({options.o: profile})


def run_profiled(
    shell: Shell, current: CurrentCluster, options: Namespace, run: Callable[[], Value]
) -> Value:
    """Run a cell while its ranks are profiled, and show the profile below, also if it fails."""
    if options.background:
        raise UsageError("--profile waits for the end of the cell; beside it %dist_profile looks.")
    cluster = current.get()
    ranks = cluster.select(options.ranks, options.on)
    profiling = cluster.begin_profile(ranks, mode=options.profile, native=options.native)
    try:
        value = run()
    except BaseException:
        try:
            show_profile(shell, profiling.end())
        except DistError as problem:  # what the cell has raised is what counts
            say(f"no profile: {problem}")
        raise
    show_profile(shell, profiling.end())
    return value


def show_profile(shell: Shell, profile: "Profile") -> None:
    """Show a profile as this shell can."""
    from jupyter_dist.views.profiles.profile_view import profile_html, profile_text

    show_markup(shell, profile_html(profile), profile_text(profile))
