"""Words for lists of names."""

from collections.abc import Sequence

_SHOWN = 6


def name_some(names: Sequence[str]) -> str:
    """Join names by commas; of a long list the first ones and how many more there are."""
    if len(names) <= _SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[: _SHOWN - 1])} and {len(names) - _SHOWN + 1} more"
