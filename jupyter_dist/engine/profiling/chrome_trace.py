"""Stacks of one thread from the trace that py-spy writes. Pure."""

from collections.abc import Iterator
from os.path import basename

import msgspec

from jupyter_dist.engine.profiling.sampler import MOST_STACKS
from jupyter_dist.engine.profiling.samples import Stack
from jupyter_dist.model.ranks.stack_reading import Call

_KEPT_CALLS = 40


class _Place(msgspec.Struct, frozen=True):
    filename: str = ""
    line: int = 0


class _Event(msgspec.Struct, frozen=True):
    """A call that begins or ends."""

    ph: str
    name: str = ""
    tid: int = 0
    ts: int = 0
    args: _Place = _Place()


class Samples:
    """Stacks by number, and which was seen when."""

    def __init__(self) -> None:
        self.times_us: list[int] = []
        """Since the start of py-spy."""
        self.samples: list[int] = []
        """Which stack was seen in each."""
        self._numbers: dict[Stack, int] = {}

    @property
    def stacks(self) -> list[Stack]:
        """What the numbers mean."""
        return list(self._numbers)

    def add(self, at_us: int, stack: Stack) -> None:
        """Note one look."""
        if stack not in self._numbers and len(self._numbers) >= MOST_STACKS:
            stack = stack[-_KEPT_CALLS:]
        self.times_us.append(at_us)
        self.samples.append(self._numbers.setdefault(stack, len(self._numbers)))


def read_changes(trace: bytes, thread: int) -> Iterator[tuple[int, Stack]]:
    """Yield when the stack of a thread was first seen otherwise, and how; at the end it is empty.

    Times are microseconds since the start of py-spy.
    """
    calls: list[Call] = []
    at_us = -1
    for event in msgspec.json.decode(trace, type=list[_Event]) if trace else ():
        if event.tid != thread or event.ph not in "BE":
            continue
        if event.ts != at_us and at_us >= 0:
            yield at_us, _without_repeats(calls)
        at_us = event.ts
        if event.ph == "B":
            calls.append(_read_call(event))
        elif calls:
            calls.pop()
    if at_us >= 0:
        yield at_us, _without_repeats(calls)


def read_samples(
    changes: Iterator[tuple[int, Stack]], span_us: tuple[int, int], period_us: int
) -> Samples:
    """Return the looks within a span of time: py-spy tells only of those that saw a change."""
    found, (since_us, until_us) = Samples(), span_us
    before_us, before = 0, Stack()
    for changed_us, stack in changes:
        # What was seen last stands until the look before the one that saw the change.
        for at_us in range(before_us + period_us, changed_us - period_us // 2, period_us):
            if before and since_us < at_us <= until_us:
                found.add(at_us, before)
        if stack and since_us < changed_us <= until_us:
            found.add(changed_us, stack)
        before_us, before = changed_us, stack
    return found


def _read_call(event: _Event) -> Call:
    # An address has no meaning on another rank.
    name = basename(event.args.filename) if event.name.startswith("0x") else event.name
    return Call(event.args.filename, event.args.line, name)


def _without_repeats(calls: list[Call]) -> Stack:
    """Turn a stack round; calls without names in one library are one call."""
    return tuple(call for outer, call in zip([None, *calls], calls, strict=False) if call != outer)[
        ::-1
    ]
