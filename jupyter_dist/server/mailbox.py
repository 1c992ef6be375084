"""What one page has not been sent yet; a page that reads slowly gets the newest, not everything."""

import asyncio
from collections import OrderedDict

MOST_PAPERS = 32
"""Messages of which each counts, as replies, that wait for one page; older ones are dropped."""
Slot = tuple[str, ...]
"""Messages of one slot replace each other. Its first word is the kind, its second the cluster."""
_STATES = ("clusters", "topology", "cell", "tail")


class Mailbox:
    """Bounded: of what shows a state only the newest is kept. Belongs to the event loop."""

    def __init__(self) -> None:
        self._papers: OrderedDict[Slot, str] = OrderedDict()
        self._has_some = asyncio.Event()

    def put(self, slot: Slot, text: str) -> None:
        """Add a message, in place of an older one of the same slot."""
        self._papers[slot] = text
        counted = [each for each in self._papers if each[0] not in _STATES]
        if len(counted) > MOST_PAPERS:
            del self._papers[counted[0]]
        self._has_some.set()

    def holds(self, slot: Slot) -> bool:
        """Return whether a message of this slot has not been taken yet."""
        return slot in self._papers

    def drop(self, cluster: str) -> None:
        """Forget how this cluster is; what was answered stays."""
        stale = [slot for slot in self._papers if slot[0] in _STATES and slot[1:2] == (cluster,)]
        for slot in stale:
            del self._papers[slot]

    async def take(self) -> str:
        """Wait for the oldest message and give it."""
        while not self._papers:
            self._has_some.clear()
            await self._has_some.wait()
        return self._papers.popitem(last=False)[1]
