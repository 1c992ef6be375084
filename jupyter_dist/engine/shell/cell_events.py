"""What is called before and after each cell, by us, by libraries and by users."""

from typing import Any

from IPython.core.events import EventManager


class CellEvents(EventManager):
    """IPython's, which take KeyboardInterrupt for an error of the callback, and go on.

    The cell would not hear that it was interrupted.
    """

    def trigger(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Call all that is registered; print errors. Raise KeyboardInterrupt where one has."""
        interrupt = None
        for call in tuple(self.callbacks[event]):
            try:
                call(*args, **kwargs)
            except KeyboardInterrupt as error:
                interrupt = error  # the others may be what brings a cell to its end
            except Exception:  # noqa: BLE001  (it may raise anything, and the cell runs all the same)
                print(f"Error in callback {call} (for {event}):")  # noqa: T201  (what it says)
                self.shell.showtraceback()
        if interrupt is not None:
            raise interrupt
