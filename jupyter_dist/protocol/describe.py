"""The protocol as a page to read.

`python -m jupyter_dist.protocol.describe > docs/reference/protocol.md` writes it.
"""

import inspect
import re
import sys
import typing
from typing import Any

import msgspec

from jupyter_dist.protocol import codec, messages

_DIRECTIONS = (
    ("Engine to coordinator", messages.ToCoordinator),
    ("Coordinator to engine", messages.ToEngine),
    ("Client to coordinator", messages.FromClient),
    ("Coordinator to client", messages.ToClient),
)
_HEAD = """Written by `python -m jupyter_dist.protocol.describe`; edit `messages/` instead.
A message is two ZeroMQ frames, the version and MessagePack; raw buffers may follow.
Between engine and coordinator 17 bytes stand behind the version: what it is, its number, and the
last number that has come. What is not confirmed is sent again over the next connection
(`control/ledger.py`); agents' streams do the same (`host_agent.proto`)."""
_PARTS = (messages.Output, messages.ErrorInfo, *typing.get_args(messages.CellEvent))


def describe() -> str:
    """Write the exchange, then one table for each direction, as Markdown."""
    doc = inspect.getdoc(messages) or ""
    drawing, after = doc.split("\n\n", 1)[1].rsplit("\n\n", 1)
    sections = [
        f"# Protocol `{codec.VERSION.decode()}`",
        _HEAD,
        f"```text\n{inspect.cleandoc(drawing)}\n```",
        after,
        *(_section(title, typing.get_args(union)) for title, union in _DIRECTIONS),
        _section("Parts of messages", _PARTS),
    ]
    return "\n\n".join(sections) + "\n"


def _section(title: str, kinds: tuple[Any, ...]) -> str:
    rows = [f"| `{kind.__name__}` | {_fields(kind)} | {_meaning(kind)} |" for kind in kinds]
    return "\n".join([f"## {title}\n", "| Name | Fields | Meaning |", "|---|---|---|", *rows])


def _fields(kind: type[msgspec.Struct]) -> str:
    hints = typing.get_type_hints(kind)
    return "<br>".join(
        f"`{field.name}: {_type_name(hints[field.name])}`"
        + ("" if field.required else " (optional)")
        for field in msgspec.structs.fields(kind)
    )


def _meaning(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or "").split()).replace("|", "\\|")


def _type_name(hint: Any) -> str:
    """Write a type as in the source, without modules; `|` would end the cell of the table."""
    if typing.get_origin(hint) is None and isinstance(hint, type):
        return hint.__name__
    return re.sub(r"(?:\w+\.)+", "", str(hint)).replace("|", "or")


if __name__ == "__main__":
    sys.stdout.write(describe())
