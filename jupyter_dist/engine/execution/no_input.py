"""What would ask a person on a rank, where nobody can answer: a clear error instead."""

import builtins
import getpass
import os
import sys
from typing import Any, NoReturn

_INSTEAD = "Ask in the notebook and hand the answer over with %dist_push."


def refuse_questions() -> None:
    """Have input(), getpass() and breakpoint() say what to do instead."""
    builtins.input = _no_input
    getpass.getpass = _no_password
    sys.breakpointhook = _no_debugger


def _no_input(prompt: object = "") -> NoReturn:
    raise EOFError(f"input({str(prompt)!r}) cannot ask on a rank. {_INSTEAD}")


def _no_password(prompt: str = "Password: ", stream: object = None) -> NoReturn:
    del stream
    raise EOFError(f"getpass({str(prompt)!r}) cannot ask on a rank. {_INSTEAD}")


def _no_debugger(*arguments: Any, **options: Any) -> Any:
    """Call the debugger that PYTHONBREAKPOINT names, which may listen on a port."""
    if os.environ.get("PYTHONBREAKPOINT"):
        return sys.__breakpointhook__(*arguments, **options)
    raise RuntimeError(
        "breakpoint() cannot ask on a rank. %dist_stacks shows where ranks are, %xmode Verbose "
        "what the calls of an error were given; PYTHONBREAKPOINT may name a debugger that uses "
        "a port."
    )
