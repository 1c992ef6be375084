"""Holes in the heap of a process that is forked: its children write there, page by copied page."""

import ctypes

_MOST_BYTES = 1024
"""Larger blocks are rare, and fill pages of their own."""
_RISING = 3
"""Blocks of one size, each above all before it: there is no hole of that size any more."""


def fill_holes() -> None:
    """Take for good what malloc has left free between blocks in use.

    Imports free thousands of blocks all over the heap. What a child allocates would go there, and
    the kernel would copy each page for the sake of a few bytes; so it finds room behind all of it.
    """
    malloc = ctypes.CDLL(None).malloc
    malloc.restype, malloc.argtypes = ctypes.c_size_t, [ctypes.c_size_t]
    for size in range(_MOST_BYTES, 0, -16):
        highest, rising = 0, 0
        while rising < _RISING:
            block = malloc(size)
            if not block:
                return
            rising = rising + 1 if block > highest else 0
            highest = max(highest, block)
