"""For how long interrupted ranks could have answered: not before SIGINT, and not without a core."""

from dataclasses import dataclass

from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.launch.processes.core_wait import CoreTime

MOST_EXCUSED = 0.9
"""Of the time since an interrupt was asked for: nothing is waited for without an end."""
ENOUGH_S = 0.5
"""A rank that has had a core for so long since the signal could have answered: a first traceback
takes a tenth of that."""
_NOTHING = CoreTime()


@dataclass
class _Interrupt:
    """What is known of an interrupt of one rank."""

    asked_s: float
    signalled_s: float | None = None
    """When its agent had told that SIGINT was sent."""
    before: CoreTime = _NOTHING
    """What it had had of cores by then."""


class AnswerTimes:
    """Counts for each rank from its interrupt on."""

    def __init__(self, roster: Roster, sender: Sender) -> None:
        self._roster, self._sender = roster, sender
        self._interrupts: dict[int, _Interrupt] = {}
        self._sending: set[str] = set()
        """Hosts whose agents have been asked to send SIGINT, and have not told that they did."""

    def look(self) -> None:
        """See, for what comes next, which agents have not told yet that they have sent SIGINT."""
        signals = self._sender.signals_under_way
        self._sending = {signal.rpartition("@")[2] for signal in signals}

    def begin(self, rank: int, now_s: float) -> None:
        """Note that an interrupt was asked for; counts again from now."""
        self._interrupts[rank] = _Interrupt(now_s)
        self.passed_s(rank, now_s)

    def passed_s(self, rank: int, now_s: float) -> float:
        """Return for how long it could have answered, in seconds."""
        interrupt = self._interrupts[rank]
        passed_s = now_s - interrupt.asked_s
        excused_s = min(self._excused_s(rank, interrupt, now_s), MOST_EXCUSED * passed_s)
        return passed_s - excused_s

    def _excused_s(self, rank: int, interrupt: _Interrupt, now_s: float) -> float:
        core_time = self._roster.core_time(rank, now_s)
        if interrupt.signalled_s is None:
            if self._roster[rank].info.host in self._sending:
                return now_s - interrupt.asked_s
            interrupt.signalled_s, interrupt.before = now_s, core_time
        excused_s = interrupt.signalled_s - interrupt.asked_s
        if core_time.had_s - interrupt.before.had_s < ENOUGH_S:
            excused_s += max(0.0, core_time.waited_s - interrupt.before.waited_s)
        return excused_s
