"""What a communicator has on its device, and what all that was split off from it has."""

import threading
import weakref
from collections.abc import Iterator

from jupyter_dist.collective.nccl.calls import DeviceCalls


class Family:
    """The device of one communicator, and its children, which the user may drop before their end.

    The main thread and the link thread use it.
    """

    def __init__(self, own: DeviceCalls) -> None:
        self._own = own
        self._children: list[tuple[weakref.ref[object], Family]] = []
        self._parting = threading.Lock()

    def adopt(self, owner: object, child: "Family") -> None:
        """Take in what was split off; `owner` is the communicator that the user has."""
        self._children.append((weakref.ref(owner), child))

    def devices(self) -> Iterator[DeviceCalls]:
        """Yield its own device, and those of all descendants."""
        yield self._own
        for _owner, child in list(self._children):
            yield from child.devices()

    def end_dropped(self) -> None:
        """End children that nobody has any more, as soon as their calls have ended."""
        if not self._parting.acquire(blocking=False):
            return  # another thread does it
        try:
            for each in list(self._children):
                if each[1]._is_over(each[0]()):  # noqa: SLF001  (of the same kind)
                    self._children.remove(each)
        finally:
            self._parting.release()

    def _is_over(self, owner: object | None) -> bool:
        self.end_dropped()
        return owner is None and not self._children and self._own.end_if_idle()
