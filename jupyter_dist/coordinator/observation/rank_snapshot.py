"""What is known of one rank of a running cell at one moment: the ground for a verdict."""

import msgspec

from jupyter_dist.model.hosts.topology import CollectiveView
from jupyter_dist.model.ranks.stacks import Frame

SILENCE_S = 3.0
"""Hearts beat once a second; who has not been heard for so long may be cut off."""
IDLE_PERCENT = 10.0
"""A rank that uses less of a core than this waits for something."""


class RankSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one rank of a running cell at this moment."""

    rank: int
    host: str = ""
    pid: int = 0
    status: str = "running"
    """running, or the final status of the rank in this cell."""
    error: str = ""
    """Of a rank that raised, as `ValueError: boom`; of one whose program has ended early by
    `sys.exit(0)` that call, as `sys.exit(0) at train.py:7`."""
    collective: CollectiveView | None = None
    """Its last collective, as its recorder has it."""
    busy_s: float = 0.0
    """For how long it has been running the cell."""
    asks: str = ""
    """What it does about input of a person, as `waits for input`; empty: nothing."""
    stopped_at: str = ""
    """Where it is stopped in a debugger; empty: it is not."""
    task: str = ""
    """Label of the ipyparallel task that it runs first; empty: it runs the cell."""
    task_s: float = 0.0
    """For how long it has been running that."""
    stack: tuple[Frame, ...] = ()
    """Of its main thread, the innermost call last; empty: not read yet, or not readable."""
    stack_s: float = 0.0
    """For how long it has been the same at every look."""
    is_unresponsive: bool = False
    """Its interpreter did not answer when asked for its stack: other code holds the GIL."""
    process_state: str = ""
    """As in /proc: R, S, D, T; empty: unknown."""
    process_state_s: float = 0.0
    """For how long it has been the same at every look."""
    cpu_percent: float = 0.0
    major_faults_per_s: float = 0.0
    """Pages fetched from disk or swap."""
    silence_s: float = 0.0
    """Since its last heartbeat."""

    @property
    def is_running(self) -> bool:
        """It has not ended the cell."""
        return self.status == "running"

    @property
    def is_stopped(self) -> bool:
        """Its process is stopped; debuggers and profilers stop it for moments only."""
        return self.is_running and self.process_state == "T" and self.process_state_s >= 1.0

    @property
    def is_silent(self) -> bool:
        """It has not been heard for long, and nobody knows why."""
        return self.is_running and self.silence_s >= SILENCE_S and not self.is_stopped

    @property
    def is_idle(self) -> bool:
        """It hardly computes."""
        return self.cpu_percent < IDLE_PERCENT and self.process_state != "R"

    @property
    def inside(self) -> CollectiveView | None:
        """The collective that it sits in, if it does, as far as that is still known."""
        last = self.collective
        if last is None or not last.is_running or not self.is_running or self.is_silent:
            return None
        return last
