"""What commands answer: text for people, and with `--json` an object for programs."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_dist.cli.command import write

if TYPE_CHECKING:
    from jupyter_dist.views.cell.terminal import Terminal


def add_json(parser: argparse.ArgumentParser) -> None:
    """Let a command answer programs."""
    parser.add_argument(
        "--json",
        action="store_true",
        help="write an object in JSON, for programs: docs/reference/json.md",
    )


def answer(options: argparse.Namespace, result: object, text: Callable[[], str]) -> int:
    """Write what a command has found, as is asked for; return the exit status 0."""
    if options.json:
        write_object(result)
    else:
        write(text())
    return 0


def write_object(result: object) -> None:
    """Write an answer as one line of JSON."""
    write(f"{msgspec.json.encode(as_plain(result), enc_hook=str).decode()}\n")


def place_for(options: argparse.Namespace) -> "Terminal | None":
    """Return where is shown how it goes: on stdout (None), or beside what programs read."""
    from jupyter_dist.views.cell.terminal import Terminal

    return Terminal(sys.stderr.write, is_tty=sys.stderr.isatty()) if options.json else None


def as_plain(value: object) -> Any:
    """Return a value as JSON has it: structs are objects with the names of their fields."""
    match value:
        case msgspec.Struct():
            return {name: as_plain(getattr(value, name)) for name in value.__struct_fields__}
        case Mapping():
            return {str(key): as_plain(each) for key, each in value.items()}
        case str() | bytes():
            return value
        case Sequence():
            return [as_plain(each) for each in value]
        case _:
            return value
