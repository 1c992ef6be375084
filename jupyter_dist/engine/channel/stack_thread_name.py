"""How the agent knows which thread of an engine it may signal for stacks: by the thread's name."""

import signal

from jupyter_dist.control.thread_name import name_own_thread
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
            name_own_thread(name)
            self._name = name
