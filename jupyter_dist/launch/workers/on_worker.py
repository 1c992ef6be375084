"""What runs on a worker of others, as ipyparallel, Ray or Dask have: it travels as source text.

Standard library only, and nothing of this package: their hosts may not have it, or an old Python.
Answers are plain values, because exceptions would arrive as those of another package.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time

GRACE_S = 5.0
"""So long an agent may take to clean up after it was given up."""
MOST_SAID = 4000
"""Characters of its last words that travel back."""
FOREIGN = (
    *("IPP_", "RAY_JOB_ID", "RAY_RAYLET_PID", "RAY_CLIENT_MODE", "PYTHONBREAKPOINT", "DASK_PARENT"),
    *("PMI_", "PMI2_", "PMIX_", "OMPI_", "PRTE_", "HYDI_", "MPI_LOCAL"),
)
"""Variables of the job that their worker is in; ranks would take themselves for its own."""
VISIBLE = "CUDA_VISIBLE_DEVICES"

started: dict[str, Agent] = {}
"""Agents that have not joined yet, by the token of their start."""
joined: dict[str, Agent] = {}
"""Those that have, and are bound to this process: their end is waited for."""


class Agent:
    """An agent; a thread starts it and waits for its end.

    A bound one ends with this process: the kernel ends it with the thread that has started it.
    """

    def __init__(self, words: list[str], visible: str | None, *, is_bound: bool) -> None:
        # It has no name in any folder, so it is gone with the last process that writes to it.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the agent)
        self.is_bound = is_bound
        self._words = [
            *(sys.executable, "-P", "-m", "jupyter_dist.agent"),
            *("--join", "-", "--sealed", *words),
        ]
        if is_bound:
            binding = "jupyter_dist.launch.processes.process_life"
            parent = str(os.getpid())
            self._words[:0] = [sys.executable, "-P", "-m", binding, parent, "--exec"]
        self._environment = own_environment(visible)
        self._is_started = threading.Event()
        self._problem: OSError | None = None
        self._timer: threading.Timer | None = None
        self._life = threading.Thread(target=self._live, daemon=True)
        self._life.start()
        self._is_started.wait()
        if self._problem is not None:
            raise self._problem

    def _live(self) -> None:
        try:
            self._process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            self._problem = error
            return
        finally:
            self._is_started.set()
        self._process.wait()

    def limit(self, token: str, patience_s: float) -> None:
        """Give it up when this time has passed, without a call."""
        self._timer = threading.Timer(patience_s, give_up, (token,))
        self._timer.daemon = True
        self._timer.start()

    def read_line(self, patience_s: float) -> str:
        """Return its next line; empty when it has ended, or has not said one in this time."""
        assert self._process.stdout is not None
        deadline_s = time.monotonic() + patience_s
        line = b""
        while not line.endswith(b"\n"):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([self._process.stdout], [], [], left_s)[0]:
                return ""
            piece = os.read(self._process.stdout.fileno(), 4096)
            if not piece:
                self._life.join()  # it closes this pipe by its end, and by nothing else
                return ""
            line += piece
        return line.decode()

    def tell(self, line: str) -> None:
        """Say a line to it, the only one; harmless when it has ended."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.close()

    def explain(self) -> dict[str, object]:
        """Return its status, None while it runs, and what it has said last."""
        self._log.seek(0)
        said = self._log.read().decode(errors="replace")
        return {"is_good": False, "status": self._process.poll(), "said": said[-MOST_SAID:]}

    def let_go(self) -> None:
        """Close our ends of its pipes: it has joined, and its end may be hours away."""
        self._stop_timer()
        self._close()

    def outlive(self) -> dict[str, object]:
        """Wait for its end; give its status."""
        self._life.join()
        return {"is_good": True, "status": self._process.poll()}

    def give_up(self) -> None:
        """Have it clean up and end."""
        self._stop_timer()
        self._process.terminate()
        self._life.join(GRACE_S)
        if self._life.is_alive():
            self._process.kill()
            self._life.join()
        self._close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def own_environment(visible: str | None) -> dict[str, str]:
    """Return the variables of an agent: this worker's without those of its job."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != VISIBLE and not name.startswith(FOREIGN)
    }
    return environment if visible is None else {**environment, VISIBLE: visible}


def look() -> dict[str, object]:
    """Return where this worker runs, and with what."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            machine = f"{file.read().strip()}/{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        machine = ""
    return {
        "hostname": socket.gethostname(),
        "machine": machine,
        "python": list(sys.version_info[:2]),
        "executable": sys.executable,
        "visible": os.environ.get(VISIBLE),
    }


def begin(
    token: str, words: list[str], visible: str | None, patience_s: float, is_bound: bool = False
) -> dict[str, object]:
    """Start an agent with these words; give the line in which it says what it is, or its last ones.

    It ends on its own when it gets no invitation.
    """
    try:
        agent = started[token] = Agent(words, visible, is_bound=is_bound)
    except OSError as error:
        return {"is_good": False, "status": None, "said": str(error)}
    agent.limit(token, 2 * patience_s)
    line = agent.read_line(patience_s)
    if line:
        return {"is_good": True, "line": line}
    answer = agent.explain()
    give_up(token)
    return answer


def hand_over(token: str, ticket: str, patience_s: float) -> dict[str, object]:
    """Hand an agent its invitation, and wait until it has joined; give its last words if not."""
    agent = started.pop(token, None)
    if agent is None:
        said = "it was given up before it was invited, or started by another process than"
        return {"is_good": False, "status": None, "said": f"{said} {os.getpid()}"}
    agent.tell(ticket)
    if agent.read_line(patience_s):
        agent.let_go()
        if agent.is_bound:
            joined[token] = agent
        return {"is_good": True}
    answer = agent.explain()
    agent.give_up()
    return answer


def hold(token: str) -> dict[str, object]:
    """Wait for the end of an agent that has joined."""
    agent = joined.get(token)
    if agent is None:
        return {"is_good": True}
    answer = agent.outlive()
    joined.pop(token, None)
    return answer


def give_up(token: str) -> None:
    """End an agent that gets no invitation."""
    agent = started.pop(token, None)
    if agent is not None:
        agent.give_up()
