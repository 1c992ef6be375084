"""How a command ends that has gone wrong: a sentence on stderr, and for programs an object more.

With `--json` the last line of stdout is JSON whatever happens, so that a program need not guess.
"""

import argparse
from collections.abc import Sequence
from contextlib import suppress

from jupyter_dist.cli.answers import write_object
from jupyter_dist.cli.command import USAGE, tell_problem, write, write_problem
from jupyter_dist.cli.jobs.json_events import write_json
from jupyter_dist.cli.jobs.run import NOTEBOOK
from jupyter_dist.cluster.jobs.exit_status import INTERRUPTED
from jupyter_dist.errors import DistError, UsageError
from jupyter_dist.options.command_options import OptionParser

RUN = "run"
BY_EVENTS = (RUN, "attach")
"""Commands that tell what happens, of which their end is the last."""


def end_badly(
    problem: Exception | KeyboardInterrupt,
    parser: OptionParser,
    options: argparse.Namespace,
    words: Sequence[str],
) -> int:
    """Write why a command failed; return the exit status. Raise again what is a bug of our own."""
    status = _status_of(problem)
    kind = type(problem).__name__
    text = tell_problem(str(problem) or _WITHOUT_WORDS.get(kind, kind), status)
    if options.json if "json" in options else _asks_for_json(parser, words):
        with suppress(OSError):  # what reads it may have gone
            if words[0] in BY_EVENTS:
                write_json(write, "ended", exit_status=status, problem=text)
            else:
                left = {"cluster": options.left_running} if "left_running" in options else {}
                write_object({"error": kind, "message": text, "exit_status": status, **left})
    if not isinstance(problem, DistError | KeyboardInterrupt):
        raise problem
    return write_problem(text, status)


_WITHOUT_WORDS = {"KeyboardInterrupt": "interrupted"}


def _status_of(problem: BaseException) -> int:
    match problem:
        case UsageError():
            return USAGE
        case KeyboardInterrupt():
            return INTERRUPTED
        case _:
            return 1


def _asks_for_json(parser: OptionParser, words: Sequence[str]) -> bool:
    """Return whether words that were refused ask for JSON, as far as they can be read.

    What stands behind the file of a program is the program's.
    """
    own = words
    if words[:1] == [RUN]:
        places = parser.get_default("commands")[RUN].places(words[1:])
        if places and not words[file := places[0] + 1].endswith(NOTEBOOK):
            own = words[:file]
    return "--json" in own
