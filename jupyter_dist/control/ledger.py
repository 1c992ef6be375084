"""What two peers have said to each other, so that nothing is lost where their connection breaks.

libzmq connects again on its own, but forgets what was under way. Each message bears a stamp behind
the version in its first frame: its number, and the number of the last one that came from the other
side. What the other side has not confirmed is kept, and sent again over the next connection; of
what comes only the next number is taken, because all that follows a gap will come again.
"""

import enum
import struct
from collections import deque
from collections.abc import Iterator, Sequence

from jupyter_dist.protocol.codec import VERSION, Frame

_STAMP = struct.Struct("<BQQ")
Stamp = tuple[int, int, int]
"""A Sign as a number, the number of the message, and that of the last one that has come."""
_STAMPED_BYTES = len(VERSION) + _STAMP.size
CONFIRM_AFTER = 16
"""Messages without an answer that would have confirmed them."""
CONFIRM_BYTES = 1 << 20
"""The same in bytes: the other side keeps that much memory for us."""


class Sign(enum.IntEnum):
    """What a stamped message is."""

    SAYS = 0
    CONFIRMS = 1
    """It has no content."""
    RESUMES = 2
    """The same; and its sender has a new connection."""
    LACKS = 3
    """The same, as an answer to that: what was said before this number is not kept any more."""
    LEAVES = 4
    """The same; and its sender will not come back."""
    CUT = 5
    """A relay says that it has lost its connection, to both sides' messages."""
    MENDED = 6
    """A relay says that it has a new one."""


_SAYS = Sign.SAYS
"""To look it up in its class takes longer than all else that is done for a message."""


class Ledger:
    """One side of what two peers say to each other; of one thread only."""

    def __init__(self, said: int = 0, taken: int = 0) -> None:
        self._said = said
        self._taken = taken
        self._kept: deque[tuple[int, Sequence[Frame]]] = deque()
        self._unanswered = self._unanswered_bytes = 0
        self.owes_word = False
        """So much has come that the other side should hear of it."""
        self._keeps = True
        """What is said is kept until it is confirmed."""
        self.silence = 0
        """How often in a row its peer was found silent."""

    @classmethod
    def begin_at(cls, stamp: Stamp) -> "Ledger":
        """Begin in the middle with a peer that was forgotten, or at the beginning.

        Who is forgotten has been answered before. One that has heard nothing yet was never known:
        what it said before this was lost with a connection, and comes again.
        """
        sign, number, confirmed = stamp
        if sign == _SAYS:
            number = number - 1 if confirmed else 0
        return cls(confirmed, number)

    @property
    def is_fresh(self) -> bool:
        """Return whether nothing was ever said, on either side."""
        return not (self._said or self._taken)

    @property
    def kept_bytes(self) -> int:
        """Return the size of what the other side has not confirmed."""
        return sum(memoryview(frame).nbytes for _, frames in self._kept for frame in frames)

    def enter(self, frames: Sequence[Frame]) -> list[Frame]:
        """Return the frames of a message with its stamp, and keep them until it is confirmed."""
        self._said += 1
        if self._keeps:
            self._kept.append((self._said, frames))
        return self._stamped(_SAYS, self._said, frames)

    def give_up(self) -> None:
        """Keep nothing until the other side has confirmed all; it may come back and lack some."""
        self._kept.clear()
        self._keeps = False

    def is_lacking(self, stamp: Stamp) -> bool:
        """Return whether a peer that resumes lacks what is not kept any more."""
        return stamp[2] < self._said - len(self._kept)

    def unacknowledged(self) -> Iterator[list[Frame]]:
        """Yield what was said and not confirmed, to be sent again."""
        for number, frames in self._kept:
            yield self._stamped(_SAYS, number, frames)

    def word(self, sign: Sign = Sign.CONFIRMS) -> list[Frame]:
        """Return a message without content, which confirms what has come."""
        return self._stamped(sign, self._said - len(self._kept), (VERSION, b""))

    def take(self, stamp: Stamp, size_bytes: int = 0) -> tuple[bool, Sign]:
        """Take in a message; return whether it is the next one with content, and what it is."""
        sign, number, confirmed = stamp
        kept = self._kept
        while kept and kept[0][0] <= confirmed:
            kept.popleft()
        if not self._keeps:
            self._keeps = confirmed == self._said
        if sign != _SAYS or number != self._taken + 1:
            if sign == Sign.LACKS:
                self._taken = max(self._taken, number)
            return False, Sign(sign)
        self._taken = number
        self._unanswered += 1
        self._unanswered_bytes += size_bytes
        self.owes_word = (
            self._unanswered >= CONFIRM_AFTER or self._unanswered_bytes >= CONFIRM_BYTES
        )
        return True, _SAYS

    def _stamped(self, sign: Sign, number: int, frames: Sequence[Frame]) -> list[Frame]:
        self._unanswered = self._unanswered_bytes = 0
        self.owes_word = False
        return [VERSION + _STAMP.pack(sign, number, self._taken), *frames[1:]]


def bare_sign(sign: Sign) -> list[Frame]:
    """Return a message of one that numbers and confirms nothing: a relay's own word."""
    return [VERSION + _STAMP.pack(sign, 0, 0), b""]


def read_stamp(first: bytes) -> Stamp | None:
    """Return the stamp in the first frame of a message; None where there is none."""
    if len(first) != _STAMPED_BYTES or not first.startswith(VERSION):
        return None
    return _STAMP.unpack_from(first, len(VERSION))
