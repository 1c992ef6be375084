"""Agents on this machine."""

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from jupyter_dist.launch.launcher import Failure, JoinTicket
from jupyter_dist.launch.own_agent import EarlyAgent, agent_arguments, agent_log, start_agent
from jupyter_dist.launch.processes.core_wait import all_waited_s
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.text.said_lines import last_lines


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

    def waited_s(self) -> float:
        """Return for how long it has waited for a core, in seconds."""
        return all_waited_s(self._process.pid)

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
        if sys.platform != "win32":
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once; its engines end with it."""
        self._process.kill()
        self._process.wait()


class LocalLauncher:
    """Starts agents as child processes; to be used from the main thread (see lifeline.py)."""

    def __init__(self, log_dir: Path, start_method: str, early: EarlyAgent | None = None) -> None:
        self._log_dir = log_dir
        self._start_method = start_method
        self._early = early

    def start(self, host: HostSpec) -> LocalAgent:
        """Start an agent on this machine; one that was started early is taken over."""
        log_path = agent_log(str(self._log_dir), host.name)
        if self._early is not None and self._early.host == host.name:
            early, self._early = self._early, None
            return LocalAgent(early.process, Path(log_path))
        arguments = agent_arguments(self._start_method)
        command = [sys.executable, *arguments]
        if host.python or host.setup:
            from jupyter_dist.launch.ssh.remote_command import python_script, shell_for

            command = [*shell_for(host), python_script(host, arguments)]
        return LocalAgent(start_agent(command, log_path), Path(log_path))


def coordinator_command(spec: ClusterSpec) -> list[str]:
    """Return the words that start the coordinator of this cluster with this Python."""
    early = early_host(spec)
    return [
        # -P: a file named like one of our imports here must not win.
        *(sys.executable, "-P", "-m", "jupyter_dist.coordinator"),
        *((early, spec.start_method) if early else ()),
    ]


def early_host(spec: ClusterSpec) -> str:
    """Return the name of a host whose agent a coordinator can start early; empty: there is none."""
    plain = (
        host.name
        for host in spec.hosts
        if host.launcher == "local" and not (host.python or host.setup)
    )
    return next(plain, "")


def is_this_machine(host: str) -> bool:
    """Return whether the name leads to this machine; raises OSError when it cannot be resolved."""
    import socket

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
