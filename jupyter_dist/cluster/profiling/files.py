"""The files that are asked for with a profile: looked at before it begins, written after it."""

from argparse import Namespace
from collections.abc import Iterator

from jupyter_dist.cluster.collectives.timeline_file import find_target
from jupyter_dist.cluster.profiling.profile import Profile
from jupyter_dist.cluster.profiling.speedscope import BEGINNING
from jupyter_dist.errors import UsageError

FRAMEWORKS = ("jax", "torch")
"""Whose traces are of use in a file only."""


def check_files(options: Namespace) -> None:
    """Raise UsageError for a file that must not be written, before ranks are profiled for it."""
    if options.trace is not None:
        find_target(options.trace, is_forced=options.force)
    if options.speedscope is not None:
        if options.mode != "sampling":
            raise UsageError(f"--speedscope is for samples, which --with {options.mode} has not.")
        what = "a speedscope profile"
        find_target(options.speedscope, is_forced=options.force, beginning=BEGINNING, what=what)


def write_files(profile: Profile, options: Namespace) -> Iterator[str]:
    """Write what is asked for, and yield a line about each file."""
    if options.trace is not None:
        path = profile.write_trace(options.trace, force=options.force)
        yield f"wrote {path}; https://ui.perfetto.dev opens it"
    elif options.mode in FRAMEWORKS:
        yield f"no file was written: the traces of {options.mode} are for --trace FILE"
    if options.speedscope is not None:
        path = profile.write_speedscope(options.speedscope, force=options.force)
        yield f"wrote {path}; https://www.speedscope.app opens it"
