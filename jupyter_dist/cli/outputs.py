"""`jupyter dist output`: what a cell has said, again, and which cells are kept."""

import argparse
from typing import TYPE_CHECKING

from jupyter_dist.cli.answers import add_json, answer
from jupyter_dist.cli.command import Command, add_name_option, visit
from jupyter_dist.model.hosts.rank import parse_ranks
from jupyter_dist.options.command_options import OptionParser
from jupyter_dist.options.output_options import OutputStyle, add_output_options, read_style

if TYPE_CHECKING:
    from jupyter_dist.cluster.cells.followed_cells import Replay

_TOLD = ("rank", "status", "stdout", "stderr", "value_repr", "error", "duration_s")


def _add_which(parser: OptionParser) -> None:
    parser.add_argument("label", nargs="?", metavar="N", help="which cell, as 3 or In[3]")
    parser.add_argument("--ranks", metavar="RANKS", help="the outputs of these ranks, as 0,2-3")
    parser.add_argument("--list", action="store_true", help="name the cells that are kept")


def output(options: argparse.Namespace) -> int:
    """Show what a cell has said: the last one, or the last with this number."""
    cluster = visit(options)
    if options.list:
        from jupyter_dist.views.tables.kept_cells import kept_cells_text

        cells = cluster.outputs()
        return answer(options, {"cells": cells}, lambda: f"{kept_cells_text(cells)}\n")
    replay = cluster.replay(options.label)
    ranks = replay.cell.ranks
    shown = ranks if options.ranks is None else parse_ranks(options.ranks, max(ranks) + 1)
    if options.json:
        return answer(options, _as_object(replay, shown), str)
    from jupyter_dist.views.cell.cell_output import CellOutputView

    style = read_style(options, OutputStyle())
    view = CellOutputView(world_size=len(ranks), shown=shown, style=style)
    view.finish(replay.show(view))
    return 0


def _as_object(replay: "Replay", shown: tuple[int, ...]) -> dict[str, object]:
    results = [each for each in replay.result or () if each.rank in shown]
    return {
        "cell": replay.cell,
        "omitted_bytes": replay.omitted_bytes,
        "ranks": [{name: getattr(each, name) for name in _TOLD} for each in results],
    }


COMMANDS: tuple[Command, ...] = (
    (output, "output 3 --ranks 0-1", _add_which, add_name_option, add_output_options, add_json),
)
