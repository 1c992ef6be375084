"""A kernel that obeys a button while it runs a cell is busy, and has to say so again."""

import asyncio
import threading
from typing import Any


def stay_busy(kernel: Any) -> None:
    """Have front ends show this kernel as busy once the message in hand is over, if a cell runs.

    ipykernel 7 hands clicks to a thread beside the cell (a subshell) and says `idle` when that is
    done; a front end shows what was said last. Called on that thread, or anywhere else for
    nothing: in ipykernel 6 clicks wait for the cell.
    """
    cell = getattr(kernel, "_main_asyncio_lock", None)  # held while the main shell has a message
    if cell is None or not cell.locked():
        return
    if threading.current_thread() is threading.main_thread():
        return
    parent = kernel.get_parent("shell")

    def say(state: str) -> None:
        content = {"execution_state": state}
        topic = kernel._topic("status")  # noqa: SLF001
        kernel.session.send(kernel.iopub_socket, "status", content, parent=parent, ident=topic)

    def say_if_over() -> None:
        if not cell.locked():
            say("idle")

    def say_again() -> None:
        if not cell.locked():
            return
        say("busy")
        # The cell may have said `idle` just now: the main thread knows when it comes to this.
        kernel.io_loop.add_callback(say_if_over)

    asyncio.get_running_loop().call_soon(say_again)
