"""Cells that hold their interpreters in native code until a test lets them go on."""

import os

from tests.patience import let_pass

CALL = "ctypes.PyDLL(None).poll(gate, 1, 90_000) == 1"
"""A signal that came to it would end it early, and it would not be True."""


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

    def hold(self):
        """Have cells that have said something take hold of their interpreters."""
        self._go.touch()
        let_pass(0.3)  # there is no event for what Python cannot tell any more

    def release(self):
        """Let all of them go on."""
        if self._writer is not None:
            os.write(self._writer, b"!")  # nobody reads it, so that it wakes them all

    def close(self):
        """Release them, and close the gate."""
        self.release()
        writer, self._writer = self._writer, None
        os.close(writer)
