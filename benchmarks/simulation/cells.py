"""The cells that simulated ranks know; any other code is over at once, as an empty cell is."""

EMPTY = "pass"
LINE = "print('rank', rank)"
"""Each rank prints one line, none like that of another."""
HELD = "comm.barrier()"
"""Lasts until the rank is interrupted, or a peer has failed."""
