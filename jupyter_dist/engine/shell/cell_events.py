"""What is called before and after each cell, by us, by libraries and by users."""

from typing import Any

from IPython.core.events import EventManager


class CellEvents(EventManager):
    """IPython's, which take KeyboardInterrupt for an error of the callback, and go on.

    The cell would not hear that it was interrupted.
    """

    def trigger(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Call what is registered; tell of errors, and let an interrupt end the cell."""
        for call in tuple(self.callbacks[event]):
            try:
                call(*args, **kwargs)
            except Exception:  # noqa: BLE001  (it may raise anything, and the cell runs all the same)
                print(f"Error in callback {call} (for {event}):")  # noqa: T201  (what it says)
                self.shell.showtraceback()
