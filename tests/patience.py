"""Bounds in seconds that hold on a busy machine too, and that still fail what is slow on its own.

What waits for a core is not slow: Linux tells for how long processes that could have run got none,
and such time is not counted. But nothing is waited for beyond a firm limit, so that what hangs
fails everywhere.

with within(3):  # `within` is a fixture as well
    cluster.stop()
"""

import contextlib
import os
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

PRESSURE = Path("/proc/pressure/cpu")
STAT = Path("/proc/stat")


def firm_s(seconds):
    """The most that may pass, however busy the machine is, where `seconds` are asked for."""
    return 5 * seconds + 5


def stalled_s():
    """Seconds since this machine began for which something waited for a core.

    That is waiting for one of its own cores, and for those of the machine that it is a guest of.
    Zero where Linux does not tell.
    """
    return _waited_s(_text(PRESSURE)) + _stolen_s(_text(STAT))


def _waited_s(pressure):
    """Read `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, in microseconds."""
    for line in pressure.splitlines():
        kind, *facts = line.split()
        if kind == "some":
            return int(dict(fact.split("=") for fact in facts)["total"]) / 1e6
    return 0.0


def _stolen_s(stat):
    """Read the eighth number of `cpu 1 2 3 …`, over all cores and in ticks."""
    ticks = stat.partition("\n")[0].split()[8:9]
    return int(ticks[0]) / os.sysconf("SC_CLK_TCK") if ticks else 0.0


def _text(path):
    try:
        return path.read_text()
    except OSError:
        return ""


@dataclass(frozen=True)
class Spell:
    """How long something took, and for how much of that the machine was too busy for it."""

    took_s: float
    stalled_s: float

    def __str__(self):
        return (
            f"{self.took_s:.2f} s, in {self.stalled_s:.2f} s of which processes waited for a core"
        )

    def is_over(self, seconds):
        """Tell whether this is more than `seconds` of a machine that has time, or over the limit."""
        return self.took_s - self.stalled_s >= seconds or self.took_s >= firm_s(seconds)

    def assert_less(self, seconds, what="it"):
        """Fail when it is over, with all numbers."""
        assert not self.is_over(seconds), (
            f"{what} took {self}, instead of less than {seconds:g} s"
            f" ({firm_s(seconds):g} s on the busiest machine)"
        )


class Stopwatch:
    """Begins to measure when it is made."""

    def __init__(self, clock=time.monotonic, stalls=stalled_s):
        self._clock, self._stalls = clock, stalls
        self._began_s, self._stalled_s = clock(), stalls()

    def spell(self):
        """What has passed since."""
        took_s = self._clock() - self._began_s
        stalled_s = min(took_s, max(0.0, self._stalls() - self._stalled_s))
        return Spell(took_s, stalled_s)

    def is_over(self, seconds):
        """Tell whether more than `seconds` have passed, as `Spell.is_over` counts them."""
        # To ask what was stalled costs more than to look at the clock.
        return self._clock() - self._began_s >= seconds and self.spell().is_over(seconds)

    def left_s(self, seconds):
        """Seconds that must pass at least until `seconds` are over; zero when they are."""
        spell = self.spell()
        worked_s = spell.took_s - spell.stalled_s
        return max(0.0, min(seconds - worked_s, firm_s(seconds) - spell.took_s))

    def assert_less(self, seconds, what="it", *, took_s=None):
        """Fail when what has passed since is over; or `took_s` of it, where others have measured."""
        spell = self.spell()
        if took_s is not None:
            spell = Spell(took_s, min(took_s, spell.stalled_s))
        spell.assert_less(seconds, what)


@contextlib.contextmanager
def within(seconds):
    """Assert that a block of code ends within so many seconds of a machine that has time."""
    watch = Stopwatch()
    yield watch
    watch.assert_less(seconds)


def wait_until(condition, within_s, what, pause_s=0.01):
    """Wait for something that another process does; fail with what was waited for."""
    watch = Stopwatch()
    while not (found := condition()):
        assert not watch.is_over(within_s), f"within {within_s:g} s: {what}"
        time.sleep(pause_s)
    return found


def wait_until_gone(find, within_s=0.0, what="left behind", pause_s=0.1):
    """Wait until nothing is found any more; fail with the words for what still is."""
    watch = Stopwatch()
    while found := find():
        assert not watch.is_over(within_s), f"{what}:\n" + "\n".join(found)
        time.sleep(pause_s)


def let_pass(seconds):
    """Give others so much time to work; for what they do without telling that it is done."""
    watch = Stopwatch()
    while (spell := watch.spell()).took_s < 5 * seconds:
        left_s = seconds - (spell.took_s - spell.stalled_s)
        if left_s <= 0:
            break
        time.sleep(left_s)


class PatientFuture(Future):
    """A future whose time-outs count as those of `within` do."""

    def result(self, timeout=None):
        """Give what was returned, or raise what was raised; TimeoutError when it is not there."""
        self._wait(timeout)
        return super().result(0 if timeout is not None else None)

    def exception(self, timeout=None):
        """Give what was raised, or None; TimeoutError when it is not there."""
        self._wait(timeout)
        return super().exception(0 if timeout is not None else None)

    def _wait(self, timeout):
        watch = Stopwatch()
        while timeout is not None and not self.done() and (left_s := watch.left_s(timeout)):
            with contextlib.suppress(TimeoutError):
                super().exception(left_s)
