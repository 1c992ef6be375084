"""What becomes of the other ranks of a cell when one raises."""

from enum import StrEnum

from jupyter_dist.errors import UsageError


class OnError(StrEnum):
    """What a person may ask for."""

    RELEASE = "release"
    """They leave collectives at once; those that compute go on."""
    INTERRUPT = "interrupt"
    """They are interrupted as well."""
    WAIT = "wait"
    """They go on as if nothing had happened."""


_BY_WORD = {each.value: each for each in OnError}


def read_on_error(word: str) -> OnError:
    """Read what a caller asked for; raises UsageError."""
    try:
        return _BY_WORD[word]  # each cell asks, and to call an enum takes longer
    except KeyError:
        raise UsageError(
            f"on_error {word!r} is not accepted. When a rank raises, the others can leave "
            "collectives ('release'), be interrupted ('interrupt') or go on ('wait')."
        ) from None
