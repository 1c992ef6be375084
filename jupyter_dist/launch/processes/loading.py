"""Imports of a process that has just begun."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Look for no garbage meanwhile, nor later in what was made: all of it is there to stay.

    The collector would go through all modules again and again. In what is forked later it would
    copy the pages that processes share, and it leaves holes there, which new objects then copy.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
