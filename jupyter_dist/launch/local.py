"""Agents on this machine."""

import contextlib
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec

from jupyter_dist.launch.launcher import Failure, JoinTicket
from jupyter_dist.launch.ssh.remote_command import python_script, shell_for
from jupyter_dist.launch.ssh.ssh_failures import last_lines
from jupyter_dist.model.spec.cluster_spec import HostSpec


class LocalAgent:
    """An agent process on this machine: our own child, which is there from the beginning."""

    stage = "Python starts"
    is_running = True

    def __init__(self, process: "subprocess.Popen[bytes]", log_path: Path) -> None:
        self._process = process
        self._log_path = log_path

    def invite(self, ticket: JoinTicket) -> None:
        """Tell it where home is; a process that is gone already is found by `poll`."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(msgspec.json.encode(ticket) + b"\n")
            self._process.stdin.close()

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._process.poll()

    def has_ended(self) -> bool:
        """Return whether the agent has ended: it is this process."""
        return self.poll() is not None

    def explain(self) -> Failure:
        """Return why it ended, or what it was doing last."""
        status = self._process.poll()
        text = self._log_path.read_text(errors="replace")
        what = "has not joined" if status is None else f"ended with status {status}"
        return Failure(f"its agent {what}", last_lines=last_lines(text))

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the end and give the exit status, or None when it still runs."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> None:
        """Ask it to clean up and end, also when someone has stopped it."""
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once; its engines end with it."""
        self._process.kill()
        self._process.wait()


class LocalLauncher:
    """Starts agents as child processes; to be used from the main thread (see lifeline.py)."""

    def __init__(self, log_dir: Path, start_method: str, parent_pid: int) -> None:
        self._log_dir = log_dir
        self._start_method = start_method
        self._parent_pid = parent_pid

    def start(self, host: HostSpec) -> LocalAgent:
        """Start an agent on this machine."""
        # -P: a file named like one of our imports in the current directory must not win.
        arguments = ["-P", "-m", "jupyter_dist.agent", "--start-method", self._start_method]
        arguments += ["--parent-pid", str(self._parent_pid)]
        command = [sys.executable, *arguments]
        if host.python or host.setup:
            command = [*shell_for(host), python_script(host, arguments)]
        log_path = self._log_dir / f"agent-{host.name}.log"
        with log_path.open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        return LocalAgent(process, log_path)


def is_this_machine(host: str) -> bool:
    """Return whether the name leads to this machine; raises OSError when it cannot be resolved."""
    if host in ("localhost", socket.gethostname()):
        return True
    import psutil  # a coordinator that is in a hurry imports this module, too

    own = {
        address.address.partition("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
    }
    bare = host.strip("[]")
    found = {str(info[4][0]) for info in socket.getaddrinfo(bare, None)}
    return bool(found & own) or any(address.startswith("127.") for address in found)
