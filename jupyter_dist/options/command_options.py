"""What a person types after a command, read as values: one grammar for notebooks and terminals."""

import argparse
import difflib
import math
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.records import DEFAULT_LAST
from jupyter_dist.model.spec.cluster_spec import parse_duration_s

_CHOICE = re.compile(r"invalid choice: '(?P<given>.*)' \(choose from (?P<choices>.*)\)")
"""How argparse refuses a word."""


class OptionParser(argparse.ArgumentParser):
    """An argparse parser that does not exit: a mistake is a UsageError naming what is accepted."""

    def __init__(self, *, prog: str, example: str, add_help: bool = False, **more: Any) -> None:
        super().__init__(prog=prog, add_help=add_help, allow_abbrev=False, **more)
        self.example = example
        self._bare: dict[str, Any] | None = None
        """What a line without any option says, which most of those of cells are."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError: what is wrong, what is accepted, an example."""
        forms = ", ".join(_form(action) for action in self._actions if _is_shown(action))
        accepted = f"Options: {forms}." if forms else "It takes no options."
        meant = self._guess(message)
        said = f"{message.rstrip('.')}. {meant}{accepted}"
        raise UsageError(f"{self.prog}: {said} Example: {self.example}")

    def _guess(self, message: str) -> str:
        """Return which option or choice may be meant by one that there is not."""
        if found := _CHOICE.search(message):
            choices = [choice.strip("' ") for choice in found["choices"].split(",")]
            near = difflib.get_close_matches(found["given"], choices, 1)
            return f"Did you mean {near[0]}? " if near else ""
        kind, _, words = message.partition(": ")
        flags = [word.partition("=")[0] for word in words.split() if word.startswith("-")]
        if kind != "unrecognized arguments" or not flags:
            return ""
        near = difflib.get_close_matches(flags[0], self._option_string_actions, 1)
        return f"Did you mean {near[0]}? " if near else ""

    def read(self, line: str) -> argparse.Namespace:
        """Read one line of options, quoted as in a shell; positionals may stand anywhere."""
        if line:
            return self._parse(line)
        if self._bare is None:
            self._bare = vars(self._parse(line))
        items = self._bare.items()
        return argparse.Namespace(
            **{name: [*value] if isinstance(value, list) else value for name, value in items}
        )

    def _parse(self, line: str) -> argparse.Namespace:
        try:
            words = shlex.split(line)
        except ValueError as problem:
            self.error(f"{line!r} cannot be split into words ({problem})")
        # Without this argparse writes the usage again for each line, which nobody sees.
        self.usage = self.usage or self.prog
        return self.parse_intermixed_args(words)

    def table(self) -> str:
        """Write every option with its explanation, one on a line."""
        rows = self.explained()
        width = max((len(form) for form, _ in rows), default=0)
        return "\n".join(f"    {form:<{width}}  {text}" for form, text in rows)

    def explained(self) -> list[tuple[str, str]]:
        """Return every option as it is typed, with its explanation."""
        return [(_form(one), one.help or "") for one in self._actions if _is_shown(one)]

    def positionals(self, words: Sequence[str]) -> list[str]:
        """Return the words that are neither options nor values of options."""
        return [words[place] for place in self.places(words)]

    def places(self, words: Sequence[str]) -> list[int]:
        """Return the places of words that are neither options nor values of options."""
        found, values_left = [], 0
        for place, word in enumerate(words):
            if values_left:
                values_left -= 1
            elif word == "-" or not word.startswith("-"):
                found.append(place)
            elif (option := self._option_string_actions.get(word)) is not None:
                values_left = option.nargs if isinstance(option.nargs, int) else 1
        return found

    def complete(self, words: Sequence[str]) -> list[str]:
        """Return what can follow: the values of the last option if it wants one, else options."""
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
    value = " ".join(action.metavar) if isinstance(action.metavar, tuple) else action.metavar
    value = value or "|".join(str(choice) for choice in action.choices or ())
    more = "…" if action.nargs in ("+", "*") else ""
    flag = action.option_strings[-1] if action.option_strings else ""
    text = " ".join(part for part in (flag, f"{value}{more}" if action.nargs != 0 else "") if part)
    return f"[{text}]" if action.nargs in ("?", "*") else text


def add_name(parser: argparse._ActionsContainer) -> None:
    """Add which cluster is meant."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="which one, when several run")


def add_ranks(parser: argparse.ArgumentParser) -> None:
    """Add which ranks are meant, where they are not all."""
    parser.add_argument("--ranks", metavar="RANKS", help="only these ranks, as 0,2-3")
    parser.add_argument(
        "--on",
        metavar="WHERE",
        help="only ranks of these hosts, or with these coordinates: nodeA,nodeB or data=0,model=1",
    )


def add_replaced_ranks(parser: argparse.ArgumentParser) -> None:
    """Add which ranks are to be replaced, where they are not those that are lost."""
    parser.add_argument(
        "--ranks", metavar="RANKS", help="these ranks, as 2 or 0,2-3, though they may live"
    )


def add_sync_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be said of code that is to be copied."""
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a file or folder to import on all hosts; of folder/ what is in it",
    )
    parser.add_argument(
        "--reload", action="store_true", help="reload imported modules that have changed"
    )
    parser.add_argument(
        "--force", action="store_true", help="copy more than 256 MiB or 20000 files"
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


def add_attach_options(parser: argparse.ArgumentParser) -> None:
    """Add beside whom, or in whose place, one attaches."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--watch", action="store_true", help="look on beside who runs cells")
    how.add_argument(
        "--take-over", action="store_true", help="run cells instead of who does; it may look on"
    )


def add_native_option(parser: argparse.ArgumentParser) -> None:
    """Add how deep one may look into stacks."""
    parser.add_argument(
        "--native", action="store_true", help="show calls of C and C++ too, where py-spy is there"
    )


def add_timeout(parser: argparse.ArgumentParser, what: str) -> None:
    """Add after which time something is interrupted."""
    parser.add_argument(
        "--timeout",
        dest="timeout_s",
        type=read_duration_s,
        metavar="S",
        help=f"interrupt {what} after this time, as 30, 30s or 5m",
    )


def add_break_options(parser: argparse.ArgumentParser) -> None:
    """Add where ranks stop in the debugger."""
    parser.add_argument(
        "--break",
        dest="break_line",
        type=number_reader("a line of the cell"),
        metavar="LINE",
        help="stop in the debugger before this line of the cell",
    )
    parser.add_argument(
        "--break-if", metavar="EXPR", help="stop where this is true: at that line, or at any"
    )
    parser.add_argument("--break-rank", metavar="RANKS", help="stop these ranks only, as 0,2-3")


def add_debug_options(parser: argparse.ArgumentParser) -> None:
    """Add which ranks stop, or when."""
    parser.add_argument("ranks", nargs="?", metavar="RANKS", help="stop these now, as 2 or 0,2-3")
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--on-error", action="store_true", help="from now on a rank that raises stops there"
    )
    when.add_argument(
        "--on-mismatch",
        action="store_true",
        help="from now on collectives are compared, and all ranks stop where they differ",
    )
    when.add_argument("--off", action="store_true", help="stop at breakpoints alone again")


def add_timeline_options(parser: argparse.ArgumentParser) -> None:
    """Add where a timeline is to be written."""
    parser.add_argument("file", metavar="FILE", help="what to write, as trace.json")
    parser.add_argument(
        "--force",
        action="store_true",
        help="overwrite a file that is not a timeline of jupyter-dist",
    )


def number_reader(what: str, least: int = 1, most: float = math.inf) -> Callable[[str], int]:
    """Return what reads a number of these, `least` or more, up to `most`."""
    accepted = f"{least} or more" if most == math.inf else f"{least}-{most}"

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}, {accepted}")
        return int(text)

    return read


read_count = number_reader("a number of ranks")
read_calls = number_reader("a number of calls")


def read_duration_s(text: str) -> float:
    """Read a time of more than 0 s, as `90`, `90s` or `15m`."""
    seconds: float = as_option(parse_duration_s)(text)
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time of more than 0 s")
    return seconds


def read_span_s(text: str) -> float:
    """Read a time of 0 s or more, as `0`, `90s` or `15m`."""
    seconds: float = as_option(parse_duration_s)(text)
    return seconds


def as_option(read: Callable[[str], Any]) -> Callable[[str], Any]:
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
