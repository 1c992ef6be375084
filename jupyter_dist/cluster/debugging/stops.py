"""Where a cell stops in the debugger, from the options of `%%spmd`."""

import ast
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from IPython.core.inputtransformer2 import TransformerManager
from msgspec.structs import replace

from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.rank import name_ranks, parse_numbers

if TYPE_CHECKING:
    from jupyter_dist.protocol.messages import Stops

_MOST_RANKS = 1_000_000


def find_stops(
    options: Namespace, code: str, ranks: Sequence[int], usual: "Stops | None"
) -> "Stops | None":
    """Return where these ranks stop in a cell; `usual` is what holds for all cells.

    Raise UsageError for a line that there is not, what is no expression, and other ranks.
    """
    if not (options.break_line or options.break_if or options.break_rank):
        return usual
    from jupyter_dist.protocol.messages import Stops

    if not (options.break_line or options.break_if):
        raise UsageError("--break-rank says who stops, and --break LINE or --break-if EXPR when.")
    chosen = parse_numbers(options.break_rank, _MOST_RANKS) if options.break_rank else None
    if options.break_rank and not chosen:
        raise UsageError(f"--break-rank {options.break_rank!r} names no ranks: give them as 0,2-3.")
    if others := set(chosen or ()) - set(ranks):
        raise UsageError(
            f"--break-rank {options.break_rank}: this cell is for {name_ranks(ranks)}, not for "
            f"{name_ranks(others)}."
        )
    _check(options, code)
    return replace(
        usual or Stops(),
        line=options.break_line or 0,
        condition=options.break_if or "",
        ranks=chosen,
    )


def _check(options: Namespace, code: str) -> None:
    if options.break_if:
        try:
            compile(options.break_if, "--break-if", "eval", dont_inherit=True)
        except (SyntaxError, ValueError) as problem:
            raise UsageError(
                f"--break-if {options.break_if!r} is no expression of Python: {problem}."
            ) from None
    wanted = options.break_line or 0
    try:
        python = TransformerManager().transform_cell(code)  # type: ignore[no-untyped-call]
        tree = ast.parse(python)
    except (SyntaxError, ValueError, RecursionError):
        return  # it comes with the cell
    last = max((each.end_lineno or 0 for each in tree.body), default=0)
    if wanted > last:
        raise UsageError(f"--break {wanted}: the last statement of the cell ends on line {last}.")
