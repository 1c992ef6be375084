"""For how long a coordinator is silent of its own, and not because others have all the cores."""

from jupyter_dist.launch.processes.core_wait import all_waited_s


class Patience:
    """Counts one silence after the other of a process of this machine."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._waited_before_s: float | None = None

    def count(self, silence_s: float) -> float:
        """Return how much of a silence is the coordinator's own; to be asked while it lasts."""
        if not silence_s:
            self._waited_before_s = None
            return 0.0
        waited_s = all_waited_s(self._pid)
        if self._waited_before_s is None:
            self._waited_before_s = waited_s
        return max(0.0, silence_s - max(0.0, waited_s - self._waited_before_s))
