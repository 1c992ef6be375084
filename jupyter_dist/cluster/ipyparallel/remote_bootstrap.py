"""What runs on an engine of someone's ipyparallel cluster: it travels there as source text.

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
FOREIGN = ("IPP_", "PMI_", "PMI2_", "PMIX_", "OMPI_", "PRTE_", "HYDI_", "MPI_LOCAL")
"""Variables of the job that their engine is in; ranks of ours would take themselves for its own."""
VISIBLE = "CUDA_VISIBLE_DEVICES"

started: dict[str, Agent] = {}
"""Agents that have not joined yet, by the token of their start."""


class Agent:
    """An agent of ours, from its start until it has joined or is given up."""

    def __init__(
        self, token: str, words: list[str], visible: str | None, patience_s: float
    ) -> None:
        # It has no name in any folder, so it is gone with the last process that writes to it.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed when the agent is let go)
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "jupyter_dist.agent"),
                *("--join", "-", "--sealed", *words),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=own_environment(visible),
            start_new_session=True,
        )
        started[token] = self
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
                self._process.wait()  # it closes this pipe by its end, and by nothing else
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
        """Close our ends, and reap it when it ends, which may be in hours."""
        self._timer.cancel()
        self._close()
        threading.Thread(target=self._process.wait, daemon=True).start()

    def give_up(self) -> None:
        """Have it clean up and end."""
        self._timer.cancel()
        self._process.terminate()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._log):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def own_environment(visible: str | None) -> dict[str, str]:
    """Return the variables of an agent: this engine's without those of its job."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name != VISIBLE and not name.startswith(FOREIGN)
    }
    return environment if visible is None else {**environment, VISIBLE: visible}


def look() -> dict[str, object]:
    """Return where this engine runs, and with what."""
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
    token: str, words: list[str], visible: str | None, patience_s: float
) -> dict[str, object]:
    """Start an agent with these words; give the line in which it says what it is, or its last ones.

    It ends on its own when it gets no invitation.
    """
    try:
        agent = Agent(token, words, visible, 2 * patience_s)
    except OSError as error:
        return {"is_good": False, "status": None, "said": str(error)}
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
        return {"is_good": False, "status": None, "said": "it was given up before it was invited"}
    agent.tell(ticket)
    if agent.read_line(patience_s):
        agent.let_go()
        return {"is_good": True}
    answer = agent.explain()
    agent.give_up()
    return answer


def give_up(token: str) -> None:
    """End an agent that gets no invitation."""
    agent = started.pop(token, None)
    if agent is not None:
        agent.give_up()
