"""One notice that hosts will be taken away, from the first word of it until all have handled it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from jupyter_dist.coordinator.cells.cell_run import CellRun
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.model.hosts.rank import name_ranks
from jupyter_dist.model.ranks.preemption_agreement import (
    Position,
    SavePoint,
    describe_late,
    describe_notice,
)
from jupyter_dist.protocol.messages import NoticeHandled
from jupyter_dist.text.lists import group_pairs

_STRAYED = "saved at another call than the others: this one had passed before it could be asked"


@dataclass
class Notice:
    """What is known of it; engines are kept by their names, since ranks may change."""

    number: int
    reasons: dict[str, str]
    """By host; without one, why every host will go."""
    left_s: float
    """What was left of the time when it came; 0: nobody knows."""
    deadline_s: float
    answers_until_s: float
    awaited: set[str]
    """Engines that have not told where they are."""
    positions: dict[str, Position] = field(default_factory=dict)
    handled: dict[str, NoticeHandled] = field(default_factory=dict)
    point: SavePoint | None = None
    strayed: set[str] = field(default_factory=set)
    """Engines that had passed the save point when they told where they are."""
    own_cell: CellRun | None = None
    """What idle ranks run to handle it."""

    @property
    def text(self) -> str:
        """Who will be taken away, and why."""
        hosts = sorted(host for host in self.reasons if host)
        reasons = dict.fromkeys(reason for reason in self.reasons.values() if reason)
        return describe_notice(hosts, "; ".join(reasons), self.left_s)

    def take_position(self, engine: str, position: Position) -> None:
        """Take in where an engine is."""
        if engine in self.awaited:
            self.awaited.discard(engine)
            self.positions[engine] = position
            if self.point is not None and self.point.is_passed(position):
                self.strayed.add(engine)

    def has_tried(self, engine: str) -> bool:
        """Return whether an engine has tried to save what is marked, with all ranks."""
        return engine in self.handled and self.handled[engine].has_tried

    def describe_problems(self, roster: Roster) -> tuple[str, ...]:
        """Return what has gone wrong, each thing once, with the ranks that it has happened to."""
        told = [(what, name) for name, each in self.handled.items() for what in each.problems]
        told += [(_STRAYED, name) for name in self.strayed.intersection(self.handled)]
        found = group_pairs(
            (what, engine.info.rank)
            for what, name in told
            if (engine := roster.find(name)) is not None
        )
        return tuple(f"{name_ranks(sorted(ranks))}: {what}" for what, ranks in found.items())

    def describe_late(self, roster: Roster, late: Iterable[str], in_cell: Iterable[int]) -> str:
        """Return what these engines have not done in time; `in_cell` are ranks in the cell."""
        ranks = {engine.info.rank for name in late if (engine := roster.find(name)) is not None}
        inside = ranks.intersection(in_cell)
        own = self.own_cell
        saving = ranks.intersection(own.ranks) - set(own.statuses) if own is not None else set()
        return describe_late(inside - saving, saving, ranks - inside - saving)
