"""Names of meetings that belong to no cell, but to the generation in which they were begun."""

_PREFIX = "generation "


def standing_id(generation: int) -> str:
    """Return what stands for the cell in messages of such meetings."""
    return f"{_PREFIX}{generation}"


def generation_of(cell_id: str) -> int | None:
    """Read the generation; None: this is a cell."""
    number = cell_id.removeprefix(_PREFIX)
    return int(number) if number != cell_id and number.isdecimal() else None
