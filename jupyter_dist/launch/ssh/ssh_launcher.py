"""Agents on other machines, placed by the user's own OpenSSH client.

One thread for each host, so that all hosts start at once: it runs ssh, waits for the agent's
greeting, checks that both ends speak the same version, and only then hands over the invitation.
"""

import contextlib
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import IO

import msgspec

from jupyter_dist.errors import DistError, InstallFailed, StartFailed
from jupyter_dist.launch.launcher import (
    GREETING,
    HOME_UNREACHABLE,
    AgentHello,
    Failure,
    JoinTicket,
    Ports,
)
from jupyter_dist.launch.own_agent import start_words
from jupyter_dist.launch.processes.process_life import own_session
from jupyter_dist.launch.ssh.remote_command import python_script, ssh_command
from jupyter_dist.launch.ssh.ssh_failures import explain_ssh, tells_end
from jupyter_dist.model.hosts.addresses import join_address
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.text.said_lines import last_lines

KEEP_WAITING_S = 2.0
"""An agent that waits for its invitation hears from us so often."""
AGENT = ("-P", "-m", "jupyter_dist.agent", "--over-ssh")
_OWN_WORDS = "jupyter-dist: "
"""So the line begins in which an agent says why it ends."""
_WAYS_HOME = (
    "Open these ports from the host to this machine, choose another network with --interface, or "
    "go through ssh with --tunnel."
)
_ALLOCATED = re.compile(r"^Allocated port (\d+) for remote forward to \S+:(\d+)\s*$", re.MULTILINE)


class SshLauncher(msgspec.Struct, frozen=True, kw_only=True):
    """Starts agents over ssh, all of them with this."""

    wire: str
    version: str
    start_method: str
    log_dir: Path
    timeout_s: float
    install: bool = False
    wheelhouse: Path | None = None

    def start(self, host: HostSpec) -> "SshAgent":
        """Start an agent on this host; what goes wrong is told by `explain`."""
        return SshAgent(host, self)


class SshAgent:
    """An agent that ssh starts, and keeps a hold of until the agent has joined."""

    def __init__(self, host: HostSpec, order: SshLauncher) -> None:
        self._host = host
        self._order = order
        self._log_path = order.log_dir / f"agent-{host.name}.log"
        self._deadline_s = monotonic() + order.timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._ticket: JoinTicket | None = None
        self._is_invited = threading.Event()
        self._hello: AgentHello | None = None
        self._failure: Failure | None = None
        self._is_over = threading.Event()
        self._is_unwanted = False
        self._status = 0
        self._first_stage = "ssh connects, setup runs" if host.setup else "ssh connects"
        self.stage = self._first_stage
        """What it is doing before it has joined."""
        self._thread = threading.Thread(target=self._run, name=f"ssh-{host.name}", daemon=True)
        self._thread.start()

    # --- as any agent ---

    @property
    def is_running(self) -> bool:
        """It has greeted."""
        return self._hello is not None

    def invite(self, ticket: JoinTicket) -> None:
        """Tell it where home is, as soon as it has greeted."""
        self._ticket = ticket
        self._is_invited.set()

    def poll(self) -> int | None:
        """Return ssh's exit status, or None while it runs."""
        return self._status if self._is_over.is_set() else None

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end and give the exit status, or None when it still runs."""
        return self._status if self._is_over.wait(timeout_s) else None

    def terminate(self) -> None:
        """End ssh; an agent that has not joined yet ends with it."""
        self._end(subprocess.Popen.terminate)

    def kill(self) -> None:
        """End ssh at once."""
        self._end(subprocess.Popen.kill)

    def _end(self, act: Callable[["subprocess.Popen[bytes]"], None]) -> None:
        with self._lock:
            self._is_unwanted = True
            self._is_invited.set()
            if self._process is not None:
                act(self._process)

    def has_ended(self) -> bool:
        """Return whether ssh has told the end of the agent, and not only lost its connection."""
        return self._is_over.is_set() and tells_end(self._host, self._status, self._log())

    def waited_s(self) -> float:
        """Return 0.0: its cores are those of another machine."""
        return 0.0

    def explain(self) -> Failure:
        """Return why it ended, or what it was doing last."""
        said = self._log()
        if self._failure is not None:
            return msgspec.structs.replace(self._failure, last_lines=last_lines(said))
        if not self._is_over.is_set():
            return Failure(f"after {self.stage} nothing more came", last_lines=last_lines(said))
        words = [line for line in said.splitlines() if line.startswith(_OWN_WORDS)]
        if words and self._hello is not None:
            reason = words[-1].removeprefix(_OWN_WORDS).rstrip(".")
            step = _WAYS_HOME if self._status == HOME_UNREACHABLE else ""
            return Failure(reason, step, last_lines(said))
        found = explain_ssh(self._host, self._status, said)
        return msgspec.structs.replace(found, last_lines=last_lines(said))

    # --- the thread ---

    def _run(self) -> None:
        try:
            self._attempt()
            if self._order.install and self._wants_install():
                self._install()
                self._attempt()
        except InstallFailed as error:
            reason = f"jupyter-dist could not be installed: {error.reason}"
            self._failure = Failure(reason, error.next_step)
        except DistError as error:
            self._failure = Failure(str(error).rstrip("."))
        except OSError as error:
            self._failure = Failure(
                f"ssh cannot be run here ({error})",
                "Install an OpenSSH client, or name yours with --ssh.",
            )
        finally:
            self._is_over.set()

    def _attempt(self) -> None:
        """Run ssh once, to its end."""
        self._failure = self._hello = None
        self.stage = self._first_stage
        script = python_script(self._host, [*AGENT, *start_words(self._order.start_method)])
        options = [word for way in self._forwarded() for word in ("-R", f"127.0.0.1:0:{way}")]
        if options:
            options += ["-o", "ExitOnForwardFailure=yes", "-o", "LogLevel=INFO"]
        self._log_path.write_bytes(b"")
        with self._log_path.open("ab") as log:
            process = self._open(ssh_command(self._host, script, options), log)
        if process is None:
            return
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError), process.stdin:  # closing it flushes it
                self._attend(process.stdin, process.stdout)
        self._status = process.returncode

    def _open(self, command: list[str], log: IO[bytes]) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if self._is_unwanted:
                return None
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                **own_session(),
            )
            return self._process

    def _attend(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        """Wait for the greeting, answer it, and stay until the connection ends.

        stdin stays open: its end tells an agent that has not joined yet that nobody waits for it.
        """
        order = self._order
        for line in stdout:
            # A shell's profile may say anything before, and leave its last line without an end.
            _, found, text = line.decode(errors="replace").partition(GREETING)
            if not found:
                continue
            self._hello = _read_greeting(text)
            if self._hello.wire != order.wire:
                self._failure = Failure(
                    f"its jupyter-dist {self._hello.version} ({self._hello.python}) speaks "
                    f"{self._hello.wire}, this one ({order.version}) speaks {order.wire}",
                    "Install the same version on both: --install does it.",
                )
                return
            self.stage = "the agent dials home"
            if order.install and self._hello.version != order.version:
                return
            while not self._is_invited.wait(KEEP_WAITING_S):
                _say(stdin, b"")
            if self._ticket is None:
                return
            ticket = self._through_tunnel(self._ticket)
            _say(stdin, msgspec.json.encode(ticket))

    # --- installing ---

    def _wants_install(self) -> bool:
        """Return whether another version, or none, is what kept the agent from coming."""
        if self._is_unwanted:
            return False
        if self._hello is not None:
            return self._hello.version != self._order.version or self._failure is not None
        return "No module named" in self._log() and "jupyter_dist" in self._log()

    def _install(self) -> None:
        from jupyter_dist.launch.ssh.install import install_on

        self.stage = "jupyter-dist is installed"
        order = self._order
        with self._log_path.open("ab") as log:
            install_on(
                self._host,
                order.version,
                order.wheelhouse,
                log,
                max(0.0, self._deadline_s - monotonic()),
                lambda: self._is_unwanted,
            )

    # --- the tunnel ---

    def _forwarded(self) -> tuple[str, ...]:
        """Give `address:port` of what the host reaches through this connection."""
        if not self._host.tunnel:
            return ()
        self._is_invited.wait()
        if self._ticket is None:
            return ()
        home, ports = self._ticket.homes[0], self._ticket.ports
        return tuple(
            join_address(home, port) for port in (ports.agents, ports.engines, ports.beats)
        )

    def _through_tunnel(self, ticket: JoinTicket) -> JoinTicket:
        """Return the invitation with the host's own ends of the tunnel, as ssh has told them."""
        if not self._host.tunnel:
            return ticket
        there = {int(port): int(given) for given, port in _ALLOCATED.findall(self._log())}
        ports = ticket.ports
        try:
            found = Ports(there[ports.agents], there[ports.engines], there[ports.beats])
        except KeyError:
            raise StartFailed(
                "ssh has not said which ports of the host it forwards. Leave -q and LogLevel out "
                "of the options in --ssh"
            ) from None
        return msgspec.structs.replace(ticket, homes=("127.0.0.1",), ports=found)

    def _log(self) -> str:
        return self._log_path.read_text(errors="replace")


def _say(stdin: IO[bytes], line: bytes) -> None:
    stdin.write(line + b"\n")
    stdin.flush()


def _read_greeting(text: str) -> AgentHello:
    """Read it; one that cannot be read comes from a version that nobody here knows."""
    try:
        return msgspec.json.decode(text, type=AgentHello)
    except msgspec.DecodeError:
        return AgentHello("another language", "of another version", "its Python")
