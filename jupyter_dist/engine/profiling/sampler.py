"""Looks at the main thread fifty times a second, from a thread of its own.

What is seen is whole lines of Python; code of C that holds the interpreter delays a look until it
is over, which is why each look has its time: what passed since the one before belongs to it.
"""

import threading
from collections.abc import Callable
from time import monotonic_ns, thread_time_ns
from types import CodeType

from jupyter_dist.frameworks.thread_frames import read_places

Places = tuple[tuple[CodeType, int], ...]
"""The calls of a thread, the innermost first."""

PERIOD_S = 0.02
MOST_SHARE = 0.01
"""Of one processor, that looking may take: a deep stack is looked at more rarely."""
MOST_SAMPLES = 20_000
"""When there are more, every second one is dropped, and looks become half as frequent."""
MOST_STACKS = 4_000
"""Different stacks that are kept; of later ones the inner calls are left out."""
_KEPT_CALLS = 40
"""Of a stack that is one too many, where it differs from those that are known."""


class Sampler:
    """What the main thread does from now on, until an order to end or for `most_s`."""

    def __init__(self, ident: int, most_s: float, read: Callable[[int], Places] = read_places):
        self._ident = ident
        self._read = read
        self._numbers: dict[tuple[tuple[int, int], ...], int] = {}
        """Of stacks, by the identities of their code: equal code of two files is not the same."""
        self.stacks: list[Places] = []
        """Every stack that was seen, as samples number them."""
        self._over = threading.Event()
        self._period_s = PERIOD_S
        self.began_ns = self.ended_ns = monotonic_ns()
        self._until_ns = self.began_ns + round(most_s * 1e9)
        self.cost_ns = 0
        """CPU time of the thread that looks."""
        self.times_us: list[int] = []
        self.samples: list[int] = []
        self._thread = threading.Thread(target=self._serve, name="profiler", daemon=True)

    @property
    def is_over(self) -> bool:
        """Nothing is looked at any more."""
        return self._over.is_set()

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def end(self) -> None:
        """Look no more; what was seen can be read then."""
        self._over.set()
        self._thread.join()

    def _serve(self) -> None:
        while not self._over.wait(self._period_s):
            self.look()
            if self.ended_ns >= self._until_ns:
                self._over.set()
        self.ended_ns = min(monotonic_ns(), self._until_ns)

    def look(self) -> None:
        """Take one sample."""
        places = self._read(self._ident)
        self.ended_ns = monotonic_ns()
        self.samples.append(self._number(places))
        self.times_us.append((self.ended_ns - self.began_ns) // 1000)
        self.cost_ns = thread_time_ns()
        if len(self.samples) >= MOST_SAMPLES:
            self.times_us, self.samples = self.times_us[1::2], self.samples[1::2]
            self._period_s *= 2
        own_share = self.cost_ns / max(1, self.ended_ns - self.began_ns)
        if own_share > MOST_SHARE and len(self.samples) % 50 == 0:
            self._period_s *= own_share / MOST_SHARE

    def _number(self, places: Places) -> int:
        number = self._numbers.get(_key(places))
        if number is None:
            if len(self.stacks) >= MOST_STACKS:
                places = places[-_KEPT_CALLS:]
            number = self._numbers.setdefault(_key(places), len(self.stacks))
            if number == len(self.stacks):
                self.stacks.append(places)
        return number


def _key(places: Places) -> tuple[tuple[int, int], ...]:
    return tuple([(id(code), line) for code, line in places])
