"""How the agent knows which thread of an engine it may signal for stacks: by the thread's name."""

import contextlib
import signal
import threading

from jupyter_dist.model.ranks.stack_thread import SIGNALLED_THREAD, SPARED_THREAD, STACK_SIGNAL


class StackSign:
    """The system's name of the thread that renews it."""

    def __init__(self) -> None:
        self._name = ""

    def renew(self) -> None:
        """Bear the name that fits: user code may have taken the signal, and its handler is its own.

        faulthandler's handler is none that Python knows of.
        """
        is_taken = callable(signal.getsignal(STACK_SIGNAL))
        name = SPARED_THREAD if is_taken else SIGNALLED_THREAD
        if name != self._name:
            own = f"/proc/self/task/{threading.get_native_id()}/comm"
            with contextlib.suppress(OSError), open(own, "wb") as comm:
                comm.write(name.encode())
            self._name = name
