"""How far each host of a start is: its stages as a table of what has been observed."""

from enum import StrEnum

import msgspec


class StartStage(StrEnum):
    """What goes on for a host while its cluster starts, in the order of a start."""

    WAITING = "waiting"
    """Nothing is done there: an agent is to come on its own, or other hosts are waited for."""
    QUEUE = "queue"
    """The job that starts its agent waits in a scheduler's queue."""
    SSH = "ssh"
    """ssh connects, and whatever is set up or installed there is under way."""
    AGENT = "agent"
    """The agent is being started, or dials home."""
    ENGINES = "engines"
    """Its ranks were asked for; not everybody's have said Hello."""
    COMMUNICATOR = "communicator"
    """All ranks of the cluster have said Hello and connect to each other."""
    READY = "ready"
    LOST = "lost"
    """It will not come: its agent, or a rank on it, has ended."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What has been seen of a host, from which its stage follows."""

    problem: str = ""
    """Why it will not come; empty: it may."""
    is_awaited: bool = False
    """Nobody has started its agent from here."""
    is_queued: bool = False
    """The job that starts its agent waits in a queue."""
    is_connecting: bool = False
    """ssh is on its way to it, or busy with its setup."""
    is_up: bool = False
    """Its agent has joined."""
    is_ordered: bool = False
    """Its agent was told to start its ranks."""
    is_welcomed: bool = False
    """All ranks of the cluster have said Hello."""
    ranks: int = 0
    """How many it is to have; 0: not known yet."""
    present_ranks: int = 0
    """So many have said Hello."""
    ready_ranks: int = 0
    note: str = ""
    """What its agent does before it has joined."""

    @property
    def stage(self) -> StartStage:
        """Return the stage: the first line that holds."""
        table = (
            (bool(self.problem), StartStage.LOST),
            (0 < self.ranks <= self.ready_ranks, StartStage.READY),
            (self.is_welcomed, StartStage.COMMUNICATOR),
            (self.is_ordered, StartStage.ENGINES),
            (self.is_up or self.is_awaited, StartStage.WAITING),
            (self.is_queued, StartStage.QUEUE),
            (self.is_connecting, StartStage.SSH),
            (True, StartStage.AGENT),
        )
        return next(stage for holds, stage in table if holds)


class HostProgress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far one host is."""

    host: str
    stage: StartStage
    ready_ranks: int
    ranks: int
    """How many it is to have; 0: not known yet."""
    seconds: float
    """Since its stage began."""
    is_up: bool = False
    """Its agent has joined."""
    present_ranks: int = 0
    """Ranks that have said Hello."""
    note: str = ""
    """What its agent does, or why it will not come."""
    passed_s: dict[str, float] = msgspec.field(default_factory=dict)
    """How long each stage took that is over, in seconds."""


class StageClock:
    """Follows one host from stage to stage."""

    def __init__(self, began_s: float) -> None:
        self._since_s = began_s
        self._stage: StartStage | None = None
        self._passed_s: dict[str, float] = {}
        self._observed = Observed()

    def take(self, observed: Observed, now_s: float) -> None:
        """Take in what is seen at this moment; a host that is lost stays lost."""
        if self._stage is StartStage.LOST:
            return
        self._observed = observed
        stage = observed.stage
        if self._stage not in (None, stage):
            passed_s = self._passed_s.get(self._stage, 0.0)
            self._passed_s[self._stage] = passed_s + now_s - self._since_s
            self._since_s = now_s
        self._stage = stage

    def tell(self, host: str, now_s: float) -> HostProgress:
        """Return how far the host is; this is its name by now."""
        seen = self._observed
        return HostProgress(
            host,
            seen.stage,
            seen.ready_ranks,
            seen.ranks,
            round(now_s - self._since_s, 3),
            seen.is_up,
            seen.present_ranks,
            seen.problem or seen.note,
            {stage: round(passed_s, 3) for stage, passed_s in self._passed_s.items()},
        )
