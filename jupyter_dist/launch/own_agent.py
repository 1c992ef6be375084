"""The agent of this machine and this Python: started with as few imports as can be.

All ranks of a local cluster wait for it, and it for nothing. So the coordinator starts it before it
imports what it needs to read its own order.
"""

import os
import subprocess
import sys


def agent_arguments(start_method: str) -> list[str]:
    """Return what Python is to be called with for an agent that ends with this process."""
    # -P: a file named like one of our imports in the current directory must not win.
    arguments = ["-P", "-m", "jupyter_dist.agent", *start_words(start_method)]
    return [*arguments, "--parent-pid", str(os.getpid())]


def start_words(start_method: str) -> list[str]:
    """Return the arguments by which an agent learns how to start its engines.

    For `auto` there are none: the agent knows its own system, and one of another release than this
    gets as far as saying so.
    """
    return [] if start_method == "auto" else ["--start-method", start_method]


def start_agent(command: list[str], log_path: str) -> "subprocess.Popen[bytes]":
    """Start an agent that writes into this log. Raise OSError."""
    with open(log_path, "ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        )


class EarlyAgent:
    """The agent of a host, started at once; the launcher takes it over."""

    def __init__(self, log_dir: str, host: str, start_method: str) -> None:
        self.host = host
        self.process = start_agent(
            [sys.executable, *agent_arguments(start_method)], agent_log(log_dir, host)
        )


def agent_log(log_dir: str, host: str) -> str:
    """Return the path of the log of a host's agent."""
    return f"{log_dir}/agent-{host}.log"
