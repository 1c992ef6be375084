"""Where sparse results go: into the matrices of the caller, which become what has come.

How many nonzeros come is not known before, so that a matrix cannot be written into. As in CuPy its
arrays are replaced; the object, its class and its format stay.
"""

from collections.abc import Sequence
from typing import Any

from jupyter_dist.collective.sparse.matrices import (
    FORMATS,
    array_module,
    class_of,
    is_matrix,
)
from jupyter_dist.errors import UsageError


def check_out(operation: str, out: Any, like: Any) -> None:
    """Raise UsageError unless `out` is None or a matrix of the library that `like` is of."""
    if out is None:
        return
    if not is_matrix(out) or out.format not in FORMATS or array_module(out) != array_module(like):
        kind = f"{type(out).__module__.partition('.')[0]}.{type(out).__name__}"
        raise UsageError(
            f"{operation} of sparse matrices got an out of {kind}. Accepted: a matrix of the same "
            f"library as the input, of format {', '.join(FORMATS)} and any size: it becomes the "
            "result. Leave `out` away to get a new one."
        )


def check_outs(operation: str, out: Any, like: Any, size: int) -> None:
    """Raise UsageError unless `out` is None, or a list: empty, or of one matrix for each rank."""
    if out is None:
        return
    if not isinstance(out, list) or len(out) not in (0, size):
        got = f"a list of {len(out)}" if isinstance(out, list) else type(out).__name__
        raise UsageError(
            f"{operation} of sparse matrices got an out of {got}. Accepted: a list that is empty, "
            f"and gets the results, or has {size} matrices, which become them."
        )
    for matrix in out:
        check_out(operation, matrix, like)


def fill(out: Any, found: Any) -> Any:
    """Let `out` become the result, and give it; give the result itself when it is None."""
    if out is None:
        return found
    made = class_of(out, out.format)(found)
    # All that it knows of itself, also whether its indices are sorted, belongs to what it was.
    vars(out).clear()
    vars(out).update(vars(made))
    return out


def fill_all(out: list[Any] | None, found: Sequence[Any] | None) -> Any:
    """Do the same for a list of results; None where none have come."""
    if out is None or found is None:
        return found
    if not out:
        out.extend(found)
        return out
    for one, result in zip(out, found, strict=True):
        fill(one, result)
    return out
