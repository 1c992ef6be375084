"""How what ranks say is put together, and when it is shown: written once for all commands."""

import argparse
from typing import Annotated, Any, Literal, TypedDict

import msgspec

from jupyter_dist.options.option import Option, add_options

Grouping = Literal["same", "rank", "order"]
Figures = Literal["column", "row"]


class OutputStyle(msgspec.Struct, frozen=True, kw_only=True):
    """How cells are shown."""

    group_outputs: Grouping = "same"
    """Equal lines of ranks are one line; or all of rank 0, then of rank 1; or collated."""
    figures: Figures = "column"
    """Figures that follow each other stand below each other, or side by side."""
    times: bool = False
    """Saved progress bars tell how long they took, and notes since when they hold."""
    is_final: bool = False
    """A cell is shown once, when it has ended."""
    quiet: bool = False
    """Nothing is shown but what went wrong."""


class OutputOptions(TypedDict, total=False):
    """What can be said of how a cell is shown."""

    group_outputs: Annotated[
        Grouping | None,
        Option(
            "equal outputs as one (same), rank after rank (rank), or first ones first (order)",
            choices=("same", "rank", "order"),
        ),
    ]
    figures: Annotated[
        Figures | None, Option("figures side by side, or not", choices=("column", "row"))
    ]
    times: Annotated[
        bool | None,
        Option(
            "whether seconds are saved of progress bars and of waiting (default: no)",
            action=argparse.BooleanOptionalAction,
        ),
    ]


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add what can be said of how a cell is shown."""
    add_options(parser, OutputOptions)


def read_style(options: argparse.Namespace, usual: OutputStyle) -> OutputStyle:
    """Return how a cell is to be shown where some of that is said, and the rest is as usual."""
    return msgspec.structs.replace(usual, **given_style(options))


def given_style(options: argparse.Namespace) -> dict[str, Any]:
    """Return what a line of options says of how cells are shown."""
    said = {name: getattr(options, name, None) for name in OutputStyle.__struct_fields__}
    return {name: value for name, value in said.items() if value is not None}


def tell_style(style: OutputStyle) -> str:
    """Write the options that make this style, as they are typed."""
    return " ".join(
        (
            "--final" if style.is_final else "--live",
            f"--group-outputs {style.group_outputs}",
            f"--figures {style.figures}",
            "--times" if style.times else "--no-times",
        )
    )
