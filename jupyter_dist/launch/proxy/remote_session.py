"""One ssh connection to the machine of a coordinator, and what its far end says there."""

import contextlib
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.files.connection_file import StartReport
from jupyter_dist.launch.launcher import AgentHello
from jupyter_dist.launch.processes.process_life import own_session
from jupyter_dist.launch.proxy.conversation import CLUSTER_ENDED, GREETING, KEEP, KEPT, RemoteOrder
from jupyter_dist.launch.ssh.remote_command import python_script, ssh_command
from jupyter_dist.launch.ssh.ssh_failures import SSH_FAILED, explain_ssh
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.text.said_lines import last_lines
from jupyter_dist.version import WIRE, __version__

_FAR_END = ("-P", "-m", "jupyter_dist.coordinator.over_ssh")
_OWN_CONNECTION = ("-o", "ControlMaster=no", "-o", "ControlPath=none")
"""A shared one would hold what is forwarded after this one has ended."""
_REFUSED = re.compile(
    r"Permission denied \(|Host key verification failed|host key for .* was revoked"
    r"|Too many authentication failures|Your account has expired|Access denied by "
)
"""What ssh says when the way is open, and it or the sshd there lets no login happen."""
_END_TIMEOUT_S = 5.0
_AT_ONCE_S = 1.0
"""Between the end of what ssh forwards and its own."""


class LoginRefused(StartFailed):
    """ssh gets there, and the login fails, as it would the next time."""


class RemoteSession:
    """Runs ssh, whose far end starts or finds a coordinator and stays until that ends."""

    def __init__(
        self, host: HostSpec, order: RemoteOrder, log_path: Path, options: Sequence[str] = ()
    ) -> None:
        """Begin. Raise StartFailed where ssh cannot be run."""
        self._host, self._order, self._log_path = host, order, log_path
        self._has_greeted = False
        command = ssh_command(host, python_script(host, _FAR_END), [*_OWN_CONNECTION, *options])
        try:
            with log_path.open("wb") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    **own_session(),
                )
        except OSError as error:
            raise StartFailed(
                f"ssh cannot be run here ({error}). Install an OpenSSH client, or name yours with "
                "--ssh."
            ) from error

    @property
    def has_ended(self) -> bool:
        """The cluster has: its far end has said so with its last word."""
        return self._process.poll() == CLUSTER_ENDED

    def read_report(self, on_stage: Callable[[StartReport], None] | None = None) -> StartReport:
        """Return how it ended, once the coordinator is started or found; `on_stage` hears more.

        Raise StartFailed, with ssh's reason and the next step, where nothing comes of it, and
        LoginRefused where that would be so the next time.
        """
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not self._has_greeted:
                self._answer_greeting(line)
                continue
            try:
                report = msgspec.json.decode(line, type=StartReport)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # what a module prints while it is loaded
            if not report.stage:
                return report
            if on_stage is not None:
                on_stage(report)
        raise self._failure()

    def _answer_greeting(self, line: bytes) -> None:
        """Send the order to a far end of the same version; noise of a shell's profile is no one."""
        _, found, text = line.decode(errors="replace").partition(GREETING)
        if not found:
            return
        hello = msgspec.json.decode(text, type=AgentHello)
        if hello.wire != WIRE:
            self.terminate()
            raise StartFailed(
                f"{self._host.name}: its jupyter-dist {hello.version} ({hello.python}) speaks "
                f"{hello.wire}, this one ({__version__}) speaks {WIRE}. Install the same version "
                "on both."
            )
        self._say(msgspec.json.encode(self._order) + b"\n")
        self._has_greeted = True

    def say(self, word: bytes) -> None:
        """Tell the far end; one that has not greeted yet hears the end of the connection instead.

        What is said over a connection that is broken is lost.
        """
        if self._has_greeted:
            self._say(word)
        else:
            self.terminate()

    def _say(self, word: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended, or was closed
            # Not through its buffer, in which the handler of a signal may interrupt this thread.
            while word:
                word = word[os.write(self._process.stdin.fileno(), word) :]

    def keep(self) -> None:
        """Have the coordinator live on when this connection ends.

        Raise StartFailed unless the far end has heard that: else it ends with the connection.
        """
        assert self._process.stdout is not None
        self.say(KEEP)
        if KEPT not in self._process.stdout:
            raise self._failure()

    def wait(self) -> None:
        """Wait until the connection or its far end has ended."""
        assert self._process.stdout is not None
        for _ in self._process.stdout:
            continue
        self._process.wait()

    def explain(self) -> str:
        """Return why it has ended, in a sentence, with the next step."""
        status = self._process.wait()
        return str(explain_ssh(self._host, status, self._read_log()))

    def _failure(self) -> StartFailed:
        is_refused = self._process.wait() == SSH_FAILED and _REFUSED.search(self._read_log())
        kind = LoginRefused if is_refused else StartFailed
        return kind(f"{self._host.name}: {self.explain()}")

    def _read_log(self) -> str:
        return self._log_path.read_text(errors="replace")

    @property
    def words(self) -> str:
        """What ssh has said last; empty: nothing."""
        return last_lines(self._read_log(), 1)

    def ends_soon(self) -> bool:
        """Return whether the connection has ended, or does at once."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_AT_ONCE_S)
        return self._process.poll() is not None

    def terminate(self) -> None:
        """End the connection at once; the coordinator goes on if it was told to live on."""
        self._process.terminate()

    def close(self) -> None:
        """Close the input of the far end, which ends it; then end ssh."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
