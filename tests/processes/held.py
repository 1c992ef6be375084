"""Cells that hold their interpreters in native code until a test lets them go on."""

import os
import platform
from pathlib import Path

from tests.patience import let_pass, wait_until

CALL = "ctypes.PyDLL(None).poll(gate, 1, 90_000) == 1"
"""A signal that came to it would end it early, and it would not be True."""
IN_CALL = ("7", "0x1", "0x15f90")
"""That system call on x86-64: its number, and the last two of what it is given."""


class Native:
    """Such cells of one test; they end when they are released, or after 90 s."""

    def __init__(self, folder):
        self._gate, self._go = folder / "gate", folder / "go"
        os.mkfifo(self._gate)
        self._writer = os.open(self._gate, os.O_RDWR | os.O_NONBLOCK)
        self.code = (
            "import ctypes, os, select, struct, time\n"
            f"gate = os.open({str(self._gate)!r}, os.O_RDWR)\n"
            "gate = ctypes.create_string_buffer(struct.pack('ihh', gate, select.POLLIN, 0))\n"
            f"while not os.path.exists({str(self._go)!r}): time.sleep(0.01)\n"
            f"{CALL}"
        )
        """Five lines; its value is True."""

    def hold(self, pids):
        """Have the cells of these ranks, which have said something, hold their interpreters."""
        self._go.touch()
        for pid in pids:
            if call_of(pid) is None:
                let_pass(0.3)  # there is no event for what Python cannot tell any more
            else:
                wait_until(lambda pid=pid: call_of(pid) == IN_CALL, 20, f"{pid} is in native code")

    def release(self):
        """Let all of them go on."""
        if self._writer is not None:
            os.write(self._writer, b"!")  # nobody reads it, so that it wakes them all

    def close(self):
        """Release them, and close the gate."""
        self.release()
        writer, self._writer = self._writer, None
        os.close(writer)


def call_of(pid):
    """What the main thread of a process asks of Linux, as `IN_CALL` has it; None: nobody tells."""
    if platform.machine() != "x86_64":
        return None
    try:
        number, *given = Path(f"/proc/{pid}/syscall").read_text().split()
    except OSError:
        return None
    return (number, *given[1:3])
