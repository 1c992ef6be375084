"""Asks every rank whether it is there: of one that has just died nobody may have told yet."""

from collections.abc import Iterable
from typing import Protocol

from jupyter_dist.coordinator.roster import Roster

PATIENCE_S = 2.0
"""Who has not answered after this time is named."""


class Beats(Protocol):
    """Heartbeats that can be asked for."""

    def ask(self, identities: Iterable[bytes]) -> None:
        """Ask these engines for a beat."""

    def answered_s(self, identity: bytes) -> float:
        """Return when the last question was asked that this engine has answered."""


class RollCall:
    """One question to all ranks that count as present."""

    def __init__(self, roster: Roster, beats: Beats, now_s: float) -> None:
        self._roster = roster
        self._beats = beats
        self._asked_s = now_s
        self.deadline_s = now_s + PATIENCE_S
        beats.ask(engine.identity for engine in roster.engines if engine.is_present and engine.pid)

    def silent_ranks(self) -> tuple[int, ...]:
        """Return the ranks that have not answered, among those that still count as present."""
        return tuple(
            engine.info.rank
            for engine in self._roster.engines
            if engine.is_present
            and engine.pid
            and self._beats.answered_s(engine.identity) < self._asked_s
        )
