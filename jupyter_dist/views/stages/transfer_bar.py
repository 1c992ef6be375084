"""A push, pull or sync that takes long: a bar that is gone when it is over."""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import monotonic

from jupyter_dist.protocol.messages import TransferMoved
from jupyter_dist.text.sizes import tell_part, tell_size
from jupyter_dist.views.cell.display_place import Display, Place
from jupyter_dist.views.cell.terminal import Terminal
from jupyter_dist.views.stages.stage_bar import bar_bundle

SPEED_OVER_S = 3.0


class TransferBar(AbstractContextManager["TransferBar"]):
    """Show how much has arrived, how fast, and how long it will take; pass its `on_moved`.

    `display` is IPython's in a notebook, or a Terminal (None: one on `sys.stdout`). Without a
    TTY nothing is written. `with` removes the bar, however it ends.
    """

    def __init__(
        self,
        *,
        display: Display | Terminal | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._place = Place(display)
        self._clock = clock
        self._began_s = clock()
        self._seen: deque[tuple[float, int]] = deque()
        """When how many bytes had arrived, over the last seconds."""

    def on_moved(self, moved: TransferMoved) -> None:
        """Show how far it is."""
        now_s = self._clock()
        if self._seen and moved.moved_bytes < self._seen[-1][1]:
            self._seen.clear()  # the next part of the way has begun
        self._seen.append((now_s, moved.moved_bytes))
        while len(self._seen) > 2 and self._seen[0][0] < now_s - SPEED_OVER_S:
            self._seen.popleft()
        share = moved.moved_bytes / moved.total_bytes if moved.total_bytes else None
        bundle = bar_bundle(share, self._words(moved, now_s))
        self._place.show_now(bundle["text/plain"], bundle)

    def close(self) -> None:
        """Remove the bar."""
        if self._place.terminal is not None:
            self._place.terminal.show_status("")
        elif self._place.is_taken:
            self._place.show({"text/html": "", "text/plain": ""})

    def __exit__(self, *_: object) -> None:
        self.close()

    def _words(self, moved: TransferMoved, now_s: float) -> str:
        """Write what is known; where no total is known, the time that has gone by."""
        parts = [moved.where] if moved.where else []
        if moved.total_bytes:
            parts.append(tell_part(moved.moved_bytes, moved.total_bytes))
        elif moved.moved_bytes:
            parts.append(tell_size(moved.moved_bytes))
        speed = self._speed()
        if speed:
            parts.append(f"{tell_size(speed)}/s")
        if speed and moved.total_bytes:
            parts.append(f"{(moved.total_bytes - moved.moved_bytes) / speed:.0f} s left")
        else:
            parts.append(f"{now_s - self._began_s:.0f} s")
        return " · ".join(parts)

    def _speed(self) -> float:
        """Return bytes per second; 0 while that is not known."""
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0
