"""What a hostile program does to its rank, and what must be told of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Deed:
    """One cell on one rank; afterwards that rank and the others must be as they were."""

    name: str
    code: str
    status: str = "ok"
    """How the cell ends on the rank."""
    value: str | None = None
    """`repr` of the last expression that must come back."""
    error: str = ""
    """Must stand in the error that is told."""
    says: str = ""
    """Must stand in what the rank has printed."""
    repaired: str = ""
    """What was repaired, as it must be told on stderr."""
    undo: str = ""
    """Run after it on the rank: what a person would do to work on."""
    within_s: float = 2.0
    is_endless: bool = False
    """■ is pressed as soon as it has printed `here`."""
    is_beyond_repair: bool = False
    """Every later cell fails as well, as in any IPython: the rank is replaced, and only it."""
    keeps_state: bool = True
    """False: the program itself removes the namespace (`%reset`)."""


def raised(name, code, error, **options):
    """Describe a cell that ends with an error of its own."""
    return Deed(name, code, "raised", error=error, **options)


def lost(name, code, error, **options):
    """Describe a cell that ends its process."""
    return Deed(name, code, "lost", error=error, **{"within_s": 5.0, **options})


def stopped(name, code, **options):
    """Describe a cell that only ■ ends."""
    return Deed(name, code, "interrupted", is_endless=True, **{"within_s": 5.0, **options})


def refused(name, code, error, **options):
    """Describe a cell that is refused before any rank has seen it."""
    return Deed(name, code, "refused", error=error, **options)
