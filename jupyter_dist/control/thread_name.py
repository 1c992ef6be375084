"""What the system calls a thread, by which others can find it: Python tells it since 3.14."""

import contextlib
import threading


def name_own_thread(name: str) -> None:
    """Set the operating system's name of the calling thread, of at most 15 bytes; Linux only."""
    own = f"/proc/self/task/{threading.get_native_id()}/comm"
    with contextlib.suppress(OSError), open(own, "wb") as comm:
        comm.write(name.encode())
