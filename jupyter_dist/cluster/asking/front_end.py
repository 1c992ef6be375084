"""Whether a person can be asked something where this program runs."""

import sys
import threading
from typing import Any

JOB_VARIABLE = "JUPYTER_DIST_JOB"
"""`jupyter dist run` tells the kernel of a notebook in it on which cluster cells run."""


def find_kernel() -> Any:
    """Return the kernel of Jupyter that this program is; None: it is none."""
    find_shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return getattr(find_shell(), "kernel", None)


def is_person_there() -> bool:
    """Return whether a person works here: in a notebook that takes input, or at a prompt.

    A script is a program, also where it is started from a terminal.
    """
    if (kernel := find_kernel()) is not None:
        return takes_input(kernel)
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def takes_input(kernel: Any) -> bool:
    """Return whether the front end of a kernel has said so: papermill and nbclient do not."""
    return bool(getattr(kernel, "_allow_stdin", True))


def find_obstacle() -> str:
    """Return why no person can be asked from here, following "cannot ask a person:"; or nothing."""
    if threading.current_thread() is not threading.main_thread():
        return "the cell runs in the background, and its program does other things"
    return find_absence()


def find_absence() -> str:
    """Return why no person can be asked in this program on any thread, likewise; or nothing."""
    if (kernel := find_kernel()) is not None:
        return "" if takes_input(kernel) else "what runs this notebook takes no input"
    return "" if _is_terminal(sys.stdin) else "the program that runs the cell has no terminal"


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False
