"""Letting others run between two looks."""

import os
from time import sleep


def pause(seconds: float) -> None:
    """Let other threads and processes run; 0 goes on at once where none wants to."""
    if seconds > 0:
        sleep(seconds)
    else:
        # Not sleep(0): a sleep of any length takes Linux's timer slack too, some 50 µs.
        os.sched_yield()
