"""What a rank writes at the head of what it moves, and what it makes of the heads of others."""

import time
from collections.abc import Mapping

from jupyter_dist.collective.broken import Breakage
from jupyter_dist.collective.calls.call import Call
from jupyter_dist.collective.ring.connections import Connections
from jupyter_dist.collective.ring.stopped import Stopped
from jupyter_dist.collective.ring.wire import (
    AGREED_BYTES,
    HEADER_BYTES,
    is_collective,
    pack_header,
    unpack_header,
)
from jupyter_dist.errors import MalformedMessage
from jupyter_dist.text.lists import group_pairs

Header = bytes | bytearray | memoryview


class Heading:
    """The head of one call of this rank."""

    def __init__(self, links: Connections, call: Call, site: str) -> None:
        self.call = call
        self.began_at = time.monotonic()
        self.other_site = ""
        """Another line, on which a peer made the same call."""
        self.is_judged_later = False
        """All heads will be compared at once: until then another collective is let pass."""
        self._site = site
        self._me = links.me
        self._world_ranks = links.world_ranks
        self._written: dict[int, bytes] = {}

    def write(self, payload_bytes: int, call: Call | None = None) -> bytes:
        """Return the header of so many bytes of this call, or of another one within it."""
        generation = self._me.generation
        if call is not None:
            return pack_header(call, generation, payload_bytes, self._site)
        header = self._written.get(payload_bytes)
        if header is None:
            header = pack_header(self.call, generation, payload_bytes, self._site)
            self._written[payload_bytes] = header
        return header

    def judge(self, peer: int, received: Header, expected: bytes, call: Call | None = None) -> None:
        """Raise Stopped if a peer's header says that it is in another call than was expected."""
        received = received[:HEADER_BYTES]
        if received == expected:
            return
        if received[:AGREED_BYTES] != expected[:AGREED_BYTES]:
            if self.is_judged_later and is_collective(received, expected):
                return
            raise self.mismatch(peer, received, call)
        self.other_site = unpack_header(received)[3]

    def judge_all(self, received: Mapping[int, bytes], expected: bytes) -> None:
        """Raise Stopped, alike on all ranks, if the headers of all say that they differ."""
        sides = group_pairs((header[:AGREED_BYTES], rank) for rank, header in received.items())
        if len(sides) > 1:
            # Of equally many the higher ranks are the odd ones.
            most, *_, fewest = sorted(sides.values(), key=len, reverse=True)
            odd, others = (
                tuple(self._world_ranks[rank] for rank in side) for side in (fewest, most)
            )
            texts = [_describe(received[side[0]]) for side in (fewest, most)]
            raise Stopped(Breakage("mismatch", odd[0], texts[0], others[0], texts[1], odd, others))
        for rank, header in received.items():
            self.judge(rank, header, expected)

    def mismatch(self, peer: int, received: Header, call: Call | None = None) -> Stopped:
        """Return what stops this rank when a peer is in the call of that header."""
        ours = _placed(call or self.call, self._site)
        me, other = self._world_ranks[self._me.rank], self._world_ranks[peer]
        return Stopped(Breakage("mismatch", me, ours, other, _describe(received)))


def _describe(header: Header) -> str:
    try:
        call, _generation, _bytes, site = unpack_header(header)
    except MalformedMessage as error:
        return str(error)
    return _placed(call, site)


def _placed(call: Call, site: str) -> str:
    return f"{call} at {site}" if site else str(call)
