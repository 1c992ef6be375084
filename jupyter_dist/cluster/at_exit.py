"""What must end before the interpreter does."""

import atexit
import weakref
from typing import Protocol


class Detachable(Protocol):
    """Something that has connections."""

    def detach(self) -> None:
        """Close them; harmless when they are closed."""


def detach_at_exit(one: Detachable) -> None:
    """Close connections before the interpreter ends; libzmq must not be torn down under them."""
    reference = weakref.ref(one)

    def detach() -> None:
        found = reference()
        if found is not None:
            found.detach()

    atexit.register(detach)
