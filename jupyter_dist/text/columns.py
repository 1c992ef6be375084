"""Columns of text side by side."""

from collections.abc import Collection, Sequence


def align(rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> list[str]:
    """Return a line for each row; columns whose index is in `right` are aligned there."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def without_empty(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Leave out the columns in which nothing stands but their heads, which are the first row."""
    heads, *others = rows
    kept = [index for index in range(len(heads)) if any(row[index] for row in others)]
    return [[row[index] for index in kept] for row in rows]
