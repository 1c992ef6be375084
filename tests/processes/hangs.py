"""Cells that hang on purpose, and what is said of them meanwhile."""

from tests.patience import Stopwatch

from .leftovers import wait_until
from .listener import Listener

SOON_S = 5.0
"""Within this time after it is certain that someone waits in vain, the cell has to say so;"""
PATIENCE_S = 3.0
"""which it is not before."""

ALIKE = """\
import os, time, threading, ctypes
import numpy as np
def until_gate():
    while not os.path.exists({gate!r}):
        time.sleep(0.02)
print('begun')
"""
"""Six lines; what a test does stands in line 7 and below."""


class TimedListener(Listener):
    """Remembers when each note has come."""

    def __init__(self):
        super().__init__()
        self.watch = Stopwatch()
        self.after_s = []

    def on_note(self, text):
        self.after_s.append(self.watch.spell().took_s)
        super().on_note(text)


class Hang:
    """A cell that hangs on purpose, until the test opens its gate or interrupts it."""

    def __init__(self, cluster, gate, in_background, setup=ALIKE):
        self.cluster, self.gate, self._setup = cluster, gate, setup
        self._in_background = in_background
        self.listener = TimedListener()
        self.cell = None

    def begin(self, code, **options):
        """Run this on all ranks; `{gate}` is its way out."""
        text = (self._setup + code).replace("{gate!r}", repr(str(self.gate)))
        ranks = range(len(self.cluster.topology().engines))
        self.listener.watch = (
            Stopwatch()
        )  # not when it is heard that it has begun: that may be late
        self.cell = self._in_background(
            self.cluster.run, text, label=5, watcher=self.listener, **options
        )
        self.listener.wait_for("begun", ranks, 30.0)

    def wait_for_calls(self, *ranks, within_s=10.0):
        """Wait until these ranks are in a collective."""

        def all_are_in_one():
            calls = [engine.collective for engine in self.cluster.topology().engines]
            return all(calls[rank] and calls[rank].is_running for rank in ranks)

        wait_until(all_are_in_one, within_s, f"ranks {ranks} are in a collective")

    def verdict(self, word, earliest_s=PATIENCE_S - 0.5, within_s=PATIENCE_S + SOON_S):
        """Give the first sentence, which has to be about this, and come in time."""
        self.listener.wait_for_note("", within_s)
        note, after_s = self.listener.notes[0], self.listener.after_s[0]
        assert word in note
        assert after_s >= earliest_s, f"{note!r} came after {after_s:.1f} s"
        return note

    def end(self):
        """Let it go on, or interrupt it; give its result."""
        self.gate.touch()
        if self.cell is None:
            return None
        try:
            return self.cell.result(2)
        except TimeoutError:
            self.cluster.interrupt()
            return self.cell.result(15)
