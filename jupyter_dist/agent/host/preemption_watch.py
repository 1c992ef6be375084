"""Whether this host will be taken away: told by SIGTERM, or by a command of the user."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable

from jupyter_dist.protocol import host_agent_pb2 as pb

INTERVAL_S = 5.0
TIMEOUT_S = 4.0
"""A command that takes longer says nothing."""
_GRACE_S = 0.5
REASON_LENGTH = 200
WITHDRAWN_AFTER = 3
"""So many runs in a row must fail: one may have met a lost packet, or a service that is busy."""
_NOT_RUN = {126: "it cannot be executed", 127: "it was not found"}
"""What the shell's own exit statuses mean."""
_KILLED = frozenset({-signal.SIGKILL, 128 + signal.SIGKILL})
"""How a command ends that took too long."""

Tell = Callable[[pb.AgentEvent], None]


class PreemptionWatch:
    """Tells the coordinator that this host will be taken away, and when that is withdrawn."""

    def __init__(self, tell: Tell, end: Callable[[], None]) -> None:
        self._tell = tell
        self._end = end
        self._over = threading.Event()
        self._command = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._door = threading.Lock()
        self._is_heeded = self._is_ending = self._is_told = self._is_explained = False
        self._failed = 0
        """Runs in a row that have said that the host stays."""
        timeout = shutil.which("timeout")
        # Should this agent be killed, the command ends all the same.
        self._limit = (timeout, "-s", "KILL", f"{TIMEOUT_S:g}") if timeout else ()

    # --- SIGTERM -----------------------------------------------------------------------------

    def obey(self, command: pb.AgentCommand) -> None:
        """Tell of SIGTERM from now on, or do not; or end, if that is what waits for the ranks."""
        match command.WhichOneof("command"):
            case "heed_notices":
                self._is_heeded = command.heed_notices.is_wanted
            case "let_go" if self._is_ending:
                self._end()

    def on_terminate(self) -> None:
        """Tell that the host is taken away, and end when the ranks have handled that.

        Called by the signal's handler. The coordinator always answers with LetGo; when it is gone,
        or is silent for too long, the stream breaks, and the agent ends as well.
        """
        if not self._is_heeded:
            self._end()
        elif not self._is_ending:
            self._is_ending = True
            self._say(pb.Notice(reason="SIGTERM", is_ending=True))

    # --- the command -------------------------------------------------------------------------

    def ask(self, command: str) -> None:
        """Run this every few seconds from now on; that it succeeds is a notice."""
        if command and not self._command:
            self._command = command
            threading.Thread(target=self._watch, name="preempt-watch", daemon=True).start()

    def close(self) -> None:
        """Ask no more, and leave no command running."""
        self._is_heeded = False
        self._over.set()
        with self._door:
            self._kill()

    def _watch(self) -> None:
        while not self._over.is_set():
            self._look()
            self._over.wait(INTERVAL_S)

    def _look(self) -> None:
        try:
            status, said = self._run()
        except OSError as error:  # this host has no process or memory left for it
            self._explain(f"it could not be started: {error.strerror or error}")
            return
        if status in _NOT_RUN:
            self._explain(_NOT_RUN[status])
        elif status not in _KILLED:
            self._take(status, said)

    def _take(self, status: int, said: bytes) -> None:
        """Tell what is new in the answer of a command that has run to its end."""
        self._failed = self._failed + 1 if status else 0
        if not status and not self._is_told:
            self._is_told = True
            self._say(pb.Notice(reason=_first_line(said) or self._command[:REASON_LENGTH]))
        elif self._is_told and self._failed >= WITHDRAWN_AFTER:
            self._is_told = False
            self._say(pb.Notice(is_withdrawn=True))

    def _explain(self, why: str) -> None:
        """Tell, once, why the command says nothing."""
        if not self._is_explained:
            self._is_explained = True
            text = f"preempt command {self._command!r} says nothing: {why}"
            self._tell(pb.AgentEvent(note=pb.Note(text=text)))

    def _run(self) -> tuple[int, bytes]:
        """Run the command in a shell; gives its status, and what it said."""
        with self._door:
            if self._over.is_set():
                return 1, b""
            self._process = subprocess.Popen(
                [*self._limit, "/bin/sh", "-c", self._command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        process = self._process
        try:
            said, _ = process.communicate(timeout=TIMEOUT_S + _GRACE_S)
        except subprocess.TimeoutExpired:
            with self._door:
                self._kill()
            said, _ = process.communicate()
        with self._door:
            self._process = None
        return process.returncode, said

    def _kill(self) -> None:
        """End the command, and what it has started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _say(self, notice: pb.Notice) -> None:
        self._tell(pb.AgentEvent(notice=notice))


def _first_line(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return " ".join(lines[0].split())[:REASON_LENGTH] if lines else ""
