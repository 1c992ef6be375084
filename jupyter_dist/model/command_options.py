"""What a person types after a command, read as values: one grammar for notebooks and terminals."""

import argparse
import difflib
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jupyter_dist.errors import UsageError
from jupyter_dist.model.bench import OPS
from jupyter_dist.model.bench_plan import DTYPES, read_ops, read_size
from jupyter_dist.model.collective_table import DEFAULT_LAST
from jupyter_dist.model.spec import parse_duration_s


class OptionParser(argparse.ArgumentParser):
    """An argparse parser that does not exit: a mistake is a UsageError naming what is accepted."""

    def __init__(self, *, prog: str, example: str, add_help: bool = False, **more: Any) -> None:
        super().__init__(prog=prog, add_help=add_help, allow_abbrev=False, **more)
        self.example = example

    def error(self, message: str) -> NoReturn:
        """Raise UsageError: what is wrong, what is accepted, an example."""
        forms = ", ".join(_form(action) for action in self._actions if _is_shown(action))
        accepted = f"Options: {forms}." if forms else "It takes no options."
        meant = self._guess(message)
        said = f"{message.rstrip('.')}. {meant}{accepted}"
        raise UsageError(f"{self.prog}: {said} Example: {self.example}")

    def _guess(self, message: str) -> str:
        """Say which option may be meant by one that there is not."""
        kind, _, words = message.partition(": ")
        flags = [word.partition("=")[0] for word in words.split() if word.startswith("-")]
        if kind != "unrecognized arguments" or not flags:
            return ""
        near = difflib.get_close_matches(flags[0], self._option_string_actions, 1)
        return f"Did you mean {near[0]}? " if near else ""

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

    def positionals(self, words: Sequence[str]) -> list[str]:
        """Give the words that are neither options nor values of options."""
        found, is_value = [], False
        for word in words:
            if not is_value and not word.startswith("-"):
                found.append(word)
            option = self._option_string_actions.get(word)
            is_value = not is_value and option is not None and option.nargs != 0
        return found

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
    more = "…" if action.nargs in ("+", "*") else ""
    flag = action.option_strings[-1] if action.option_strings else ""
    text = " ".join(part for part in (flag, f"{value}{more}" if action.nargs != 0 else "") if part)
    return f"[{text}]" if action.nargs in ("?", "*") else text


def add_sync_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be said of code that is to be copied."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a file or folder to import on all hosts; of folder/ what is in it",
    )
    parser.add_argument(
        "--reload", action="store_true", help="load imported modules anew that have changed"
    )
    parser.add_argument(
        "--force", action="store_true", help="copy more than 256 MiB or 20000 files"
    )


def add_bench_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be said of a benchmark of collectives."""
    parser.add_argument(
        "--ops",
        type=_as_option(read_ops),
        metavar="OP,OP",
        help=f"what to measure: all, or some of {', '.join(OPS)}",
    )
    for flag, dest, text in (
        ("--min", "min_bytes", "smallest size, as 8, 4K or 1MiB (default: 8)"),
        ("--max", "max_bytes", "largest size (default: 64M; 1G with nccl)"),
    ):
        parser.add_argument(flag, dest=dest, type=_as_option(read_size), metavar="SIZE", help=text)
    parser.add_argument(
        "--factor", type=int, metavar="F", help="from one size to the next (default: 8)"
    )
    parser.add_argument(
        "--dtype", choices=DTYPES, help="of what elements arrays are made (default: float32)"
    )
    parser.add_argument(
        "--check",
        action=argparse.BooleanOptionalAction,
        help="whether every element of every result is checked (default: yes)",
    )
    parser.add_argument(
        "--timeout",
        dest="timeout_s",
        type=read_duration_s,
        metavar="S",
        help="give up when one collective takes longer, as 30, 30s or 5m (default: 60 s)",
    )


def add_collectives_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be said of the calls that are to be shown."""
    parser.add_argument(
        "--last",
        type=read_calls,
        metavar="N",
        default=DEFAULT_LAST,
        help=f"so many calls (default: {DEFAULT_LAST})",
    )


def add_native_option(parser: argparse.ArgumentParser) -> None:
    """Add how deep one may look into stacks."""
    parser.add_argument(
        "--native", action="store_true", help="show calls of C and C++ too, where py-spy is there"
    )


def add_timeline_options(parser: argparse.ArgumentParser) -> None:
    """Add where a timeline is to be written."""
    parser.add_argument("file", metavar="FILE", help="what to write, as trace.json")
    parser.add_argument(
        "--force", action="store_true", help="overwrite a file that is no timeline of ours"
    )


def bench_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Turn the options of a benchmark into arguments of `Cluster.bench`: those given."""
    names = ("ops", "min_bytes", "max_bytes", "factor", "dtype", "check", "timeout_s")
    given = {name: getattr(options, name) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def read_count(text: str) -> int:
    """Read a number of ranks, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of ranks, 1 or more")
    return int(text)


def read_calls(text: str) -> int:
    """Read a number of calls, 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of calls, 1 or more")
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


def _as_option(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Let argparse say which option it was that could not be read."""

    def read_option(text: str) -> Any:
        try:
            return read(text)
        except UsageError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    return read_option


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
