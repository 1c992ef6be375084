"""What a person types after a command, read as values: one grammar for notebooks and terminals."""

import argparse
import shlex
from collections.abc import Sequence
from typing import Any, NoReturn

from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec import COMMUNICATOR_KINDS, parse_duration_s

DEFAULT_RANKS = 4


class OptionParser(argparse.ArgumentParser):
    """An argparse parser that does not exit: a mistake is a UsageError naming what is accepted."""

    def __init__(self, *, prog: str, example: str, add_help: bool = False, **more: Any) -> None:
        super().__init__(prog=prog, add_help=add_help, allow_abbrev=False, **more)
        self.example = example

    def error(self, message: str) -> NoReturn:
        """Raise UsageError: what is wrong, what is accepted, an example."""
        forms = ", ".join(_form(action) for action in self._actions if _is_shown(action))
        accepted = f"Options: {forms}." if forms else "It takes no options."
        raise UsageError(f"{self.prog}: {message.rstrip('.')}. {accepted} Example: {self.example}")

    def read(self, line: str) -> argparse.Namespace:
        """Read one line of options, quoted as in a shell; positionals may stand anywhere."""
        try:
            words = shlex.split(line)
        except ValueError as problem:
            self.error(f"{line!r} cannot be split into words ({problem})")
        # Without this argparse writes the usage anew for each line, which nobody sees.
        self.usage = self.usage or self.prog
        return self.parse_intermixed_args(words)

    def table(self) -> str:
        """Write every option with its explanation, one on a line."""
        shown = [action for action in self._actions if _is_shown(action)]
        width = max((len(_form(action)) for action in shown), default=0)
        return "\n".join(f"    {_form(action):<{width}}  {action.help}" for action in shown)

    def complete(self, words: Sequence[str]) -> list[str]:
        """Say what can follow: the values of the last option if it wants one, else options."""
        option = self._option_string_actions.get(words[-1]) if words else None
        if option is not None and option.nargs != 0:
            return [str(choice) for choice in option.choices or ()]
        found: list[str] = []
        for action in self._actions:
            if action.option_strings:
                found += [flag for flag in action.option_strings if flag not in words]
            else:
                found += [str(choice) for choice in action.choices or ()]
        return found


def _is_shown(action: argparse.Action) -> bool:
    return action.dest != "help"


def _form(action: argparse.Action) -> str:
    """Write one option as it is typed: `--comm auto|ring|none`, `-n N`, `NAME…`."""
    value = action.metavar or "|".join(str(choice) for choice in action.choices or ())
    more = "…" if action.nargs == "+" else ""
    flag = action.option_strings[-1] if action.option_strings else ""
    text = " ".join(part for part in (flag, f"{value}{more}" if action.nargs != 0 else "") if part)
    return f"[{text}]" if action.nargs == "?" else text


def add_start_options(parser: argparse.ArgumentParser) -> None:
    """Add everything that can be asked of a new cluster."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "-n", type=read_count, metavar="N", help=f"ranks on this machine (default: {DEFAULT_RANKS})"
    )
    size.add_argument("--hosts", metavar="HOST:N", help="where to start how many ranks")
    parser.add_argument("--name", metavar="NAME", help="how to find the cluster again")
    parser.add_argument(
        "--timeout",
        dest="timeout_s",
        type=read_duration_s,
        metavar="S",
        help="give up when it is not ready after this time, as 60 or 2m (default: 60 s)",
    )
    parser.add_argument(
        "--keep",
        dest="keep_s",
        type=read_duration_s,
        metavar="DURATION",
        help="how long it lives without a notebook, as 90s, 15m or 2h (default: 15m)",
    )
    parser.add_argument(
        "--env",
        type=read_variable,
        nargs="+",
        action="extend",
        metavar="K=V",
        help="environment variables of the ranks",
    )
    parser.add_argument("--cwd", metavar="DIR", help="working directory of the ranks")
    parser.add_argument(
        "--comm", choices=COMMUNICATOR_KINDS, help="what `comm` is in a cell (default: auto)"
    )


def start_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Turn the options of a new cluster into the arguments of `Cluster.start`."""
    given = {
        "hosts": options.hosts or f"localhost:{options.n or DEFAULT_RANKS}",
        "name": options.name,
        "timeout_s": options.timeout_s,
        "keep_s": options.keep_s,
        "env": dict(options.env) if options.env else None,
        "cwd": options.cwd,
        "comm": options.comm,
    }
    return {key: value for key, value in given.items() if value is not None}


def read_count(text: str) -> int:
    """Read a number of ranks, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of ranks, 1 or more")
    return int(text)


def read_duration_s(text: str) -> float:
    """Read a time of more than 0 s, as `90`, `90s` or `15m`."""
    try:
        seconds = parse_duration_s(text)
    except UsageError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of more than 0 s")
    return seconds


def read_variable(text: str) -> tuple[str, str]:
    """Read `K=V`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not K=V")
    return key, value


def read_identifier(text: str) -> str:
    """Read a name that Python can assign to."""
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not a Python name")
    return text
