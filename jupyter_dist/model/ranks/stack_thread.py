"""How the agent of a host gets at the stacks of a rank whose interpreter does not answer.

The engine has faulthandler write them to a file when it gets this signal. The signal goes to a
thread of our own: what user code waits for in the main thread is not disturbed by it.
"""

import signal

STACK_SIGNAL = signal.SIGUSR1
SIGNALLED_THREAD = "jd-link"
"""What the system calls the thread (at most 15 bytes); it has this name once all is prepared."""
SPARED_THREAD = "jd-link-spared"
"""Its name while user code has a handler of its own for the signal, which must not be called."""


def stacks_path(run_dir: str, engine: str) -> str:
    """Return the file to which the engine of this name writes its stacks."""
    return f"{run_dir}/rank-{engine}.stacks"
