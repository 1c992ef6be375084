"""Groups that were destroyed, held until their threads are done with Python objects."""

import threading
from collections.abc import Iterable
from time import monotonic
from typing import Any

HELD_S = 0.5
"""The threads of a group wait for the interpreter at most a few of its turns."""


class Departed:
    """Keeps a group alive a moment longer than torch does.

    A DDP model whose variable goes right after `destroy_process_group()` ends the group while it
    holds the interpreter, and waits for the group's threads; one that has yet to let go of its last
    tensor waits for the interpreter in turn, for ever.
    """

    def __init__(self) -> None:
        self._held: list[tuple[float, Any]] = []

    def hold(self, groups: Iterable[Any]) -> None:
        """Keep these from now on."""
        now_s = monotonic()
        self._held = [*self._held, *((now_s, group) for group in groups)]

    def let_go(self, now_s: float | None = None) -> None:
        """Let go of those that were kept long enough; any thread, which does not wait."""
        if not self._held:
            return
        now_s = monotonic() if now_s is None else now_s
        due = [each for each in self._held if now_s - each[0] >= HELD_S]
        if due:
            self._held = [each for each in self._held if all(each is not other for other in due)]
            # A group ends when nobody has it, which may wait for what is under way in it.
            threading.Thread(target=due.clear, name="torch-departed", daemon=True).start()
