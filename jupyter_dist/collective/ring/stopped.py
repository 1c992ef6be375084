"""Why a running operation of the ring cannot go on, and how sure that is."""

from enum import IntEnum

from jupyter_dist.collective.broken import Breakage


class Certainty(IntEnum):
    """How much a reason is worth; the higher one counts."""

    GUESSED = 0
    """A peer that sends to us closed, perhaps only because of what another one did."""
    SEEN = 1
    """A peer that we send to closed without a word."""
    KNOWN = 2
    """We found it ourselves, or were told."""


class Stopped(Exception):
    """The running operation cannot go on."""

    def __init__(self, breakage: Breakage, certainty: Certainty = Certainty.KNOWN) -> None:
        self.breakage = breakage
        self.certainty = certainty
        super().__init__(breakage)
