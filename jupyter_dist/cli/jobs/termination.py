"""SIGTERM, as schedulers send it to a job: ranks save where they want to, then it is Ctrl-C."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from jupyter_dist.errors import DistError

if TYPE_CHECKING:
    from jupyter_dist.cluster.cluster import Cluster

REASON = "SIGTERM at jupyter dist run"
ENDS_WITHIN_S = 1.0
"""What has saved mostly ends then, without an interrupt, which would cut off its last lines."""


class Termination:
    """Hears of SIGTERM; a second one does not wait for what is being saved."""

    def __init__(self) -> None:
        self.has_come = False
        self.is_over = False
        """The job has ended: from now on the signal interrupts nothing."""
        self._cluster: Cluster | None = None
        self._is_left = threading.Event()

    @contextmanager
    def of_program(self, cluster: "Cluster") -> Iterator[None]:
        """Let ranks of this cluster save first, as long as the program runs."""
        self._cluster = cluster
        self._is_left.clear()
        try:
            yield
        finally:
            self._cluster = None
            self._is_left.set()

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Do what a handler does."""
        is_first, self.has_come = not self.has_come, True
        if self.is_over:
            return
        if is_first and self._cluster is not None:
            threading.Thread(target=self._save_and_end, args=(self._cluster,), daemon=True).start()
        elif signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of what a shell began with &
            raise KeyboardInterrupt("ended by SIGTERM")
        else:
            signal.raise_signal(signal.SIGINT)

    def _save_and_end(self, cluster: "Cluster") -> None:
        from jupyter_dist.cluster.jobs.announcement import announce_end

        try:
            with suppress(DistError):  # who has gone has nothing to save
                if announce_end(cluster, REASON):
                    self._is_left.wait(ENDS_WITHIN_S)
        finally:
            if self._cluster is not None:
                os.kill(os.getpid(), signal.SIGTERM)  # the second one


@contextmanager
def termination_heard() -> Iterator[Termination]:
    """Hear of SIGTERM as long as this holds."""
    termination = Termination()
    before = signal.signal(signal.SIGTERM, termination.on_signal)
    try:
        yield termination
    finally:
        signal.signal(signal.SIGTERM, before)
