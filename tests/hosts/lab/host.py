"""One host of the lab: its namespaces, its processes, and what is left in it."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.processes.leftovers import command_of, listening

from . import host_files, host_init
from .system import PATH, program, run

_SSH_PORT = 22
_SSHD_TIMEOUT_S = 60.0
_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")


class Host:
    """A host whose files lie in a directory of this machine; it is down until `power_on`."""

    def __init__(self, name, root, visible):
        self.name = name
        self.root = root
        self._visible = visible
        self._unshare = None
        self._init_pid = 0
        self._replaced: dict[Path, tuple[bytes, int] | None] = {}
        self._homes_mode = "rw"

    @property
    def pid(self):
        """Of its first process, as this machine sees it; 0 while it is down."""
        return self._init_pid if self._unshare and self._unshare.poll() is None else 0

    def power_on(self):
        """Make its namespaces; `wait_until_built` must follow."""
        if self.pid:
            raise RuntimeError(f"host {self.name} is up")
        words = [sys.executable, "-I", "-S", host_init.__file__, self.name, self.root]
        with open(self.root / "boot.log", "w") as log:
            self._unshare = subprocess.Popen(
                [program("unshare"), *_NAMESPACES, "--fork", "--kill-child"]
                + [str(word) for word in (*words, *self._visible)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={"PATH": PATH},
                start_new_session=True,
            )

    def wait_until_built(self):
        """Wait until it has its own files."""
        told = self._unshare.stdout.readline()
        if not told:
            self.power_off()
            log = (self.root / "boot.log").read_text()
            raise RuntimeError(f"host {self.name} does not come up: {log}")
        self._init_pid, self._homes_mode = int(told), "rw"

    def power_off(self):
        """End everything in it at once; nothing of it can say goodbye."""
        if self._unshare is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)
        self._unshare.stdin.close()
        # It ends after its child, and that one after all others in the namespace.
        self._unshare.wait(10)
        self._unshare.stdout.close()
        self._unshare, self._init_pid = None, 0

    def command(self, argv):
        """The words that run something inside, with nothing but a login's environment."""
        if not self.pid:
            raise RuntimeError(f"host {self.name} is down")
        login = ("HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "LANG=C.UTF-8")
        return [
            *(program("nsenter"), "-t", str(self.pid), *_NAMESPACES, "--"),
            # What was started through us shall not outlive us.
            *(program("setpriv"), "--pdeathsig", "KILL", "--"),
            *("env", "-i", "-C", "/root", f"PATH={PATH}", *login),
            *map(str, argv),
        ]

    def start_sshd(self):
        """Start its ssh server and wait until it listens; harmless if it does."""
        if _SSH_PORT in self._listening():
            return
        run(self.command([program("sshd"), "-E", "/etc/ssh/sshd.log"]))
        deadline_s = time.monotonic() + _SSHD_TIMEOUT_S
        while _SSH_PORT not in self._listening():
            if time.monotonic() > deadline_s:
                log = (self.root / "etc/ssh/sshd.log").read_text()
                raise RuntimeError(f"sshd of {self.name} does not listen: {log}")
            time.sleep(0.005)

    def stop_sshd(self, with_sessions):
        """Kill its ssh server, and its sessions too or leave them."""
        for process in self._everything():
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.name().startswith("sshd") and (with_sessions or _is_listener(process)):
                    process.kill()
                    process.wait(5)

    def change_host_key(self):
        """Give its ssh server a new key."""
        key = self.path(host_files.HOST_KEY)
        for file in (key, key.with_name(f"{key.name}.pub")):
            self._remember(file)
        host_files.make_key(key)
        self._restart_sshd()

    def write(self, path, text, mode):
        """Write a file of root's until `restore`."""
        file = self.path(path)
        self._remember(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def remount_homes(self, mode):
        """Let the homes be read-only ("ro") or not ("rw")."""
        if mode != self._homes_mode:
            for folder in ("/root", "/home"):
                run(self.command(["mount", "-o", f"remount,bind,{mode}", folder]))
            self._homes_mode = mode

    def write_homes(self, key):
        """Make homes and temporary folders new, where the owner of a key may log in."""
        seen = {self.path(path) for path in self._visible}
        host_files.write_homes(self.root, key.with_name(f"{key.name}.pub"), seen)

    def restore(self, key):
        """Make its files as they were in the beginning; it must be up."""
        self.remount_homes("rw")
        for file, old in self._replaced.items():
            host_files.remove(file)
            if old is not None:
                file.write_bytes(old[0])
                file.chmod(old[1])
        if self.path(host_files.HOST_KEY) in self._replaced:
            self._restart_sshd()
        self._replaced.clear()
        self.write_homes(key)

    def path(self, path):
        """Where this machine finds a file of it, even while it is down."""
        return self.root / str(path).lstrip("/")

    def processes(self):
        """Whatever runs in it, but not what the lab itself needs."""
        found = []
        for process in self._everything():
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.pid != self.pid and not _is_listener(process):
                    found.append(process)
        return found

    def leftovers(self):
        """What jupyter-dist has in it, in words."""
        found = [
            f"{self.name}: process {process.pid}: {' '.join(command_of(process))}"
            for process in self.processes()
            if _is_ours(process)
        ]
        found += [
            f"{self.name}: someone listens on port {port}"
            for port in sorted(self._listening() - {_SSH_PORT})
        ]
        return found + [f"{self.name}: file {path}" for path in self._our_files()]

    def remove_leftovers(self):
        """Kill and delete, so that whoever comes next is not disturbed."""
        processes = self.processes()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=5)
        for path in self._our_files():
            run(["rm", "-rf", self._seen_from_here(path)])

    def _remember(self, file):
        old = (file.read_bytes(), file.stat().st_mode) if file.exists() else None
        self._replaced.setdefault(file, old)

    def _restart_sshd(self):
        self.stop_sshd(with_sessions=False)
        self.start_sshd()

    def _everything(self):
        if not self.pid:
            return []
        found = []
        own = os.stat(f"/proc/{self.pid}/ns/pid").st_ino
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.NoSuchProcess):
                namespace = os.stat(f"/proc/{process.pid}/ns/pid").st_ino
                if namespace == own and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def _listening(self):
        """The TCP ports on which someone in it listens."""
        with contextlib.suppress(FileNotFoundError):  # it is down
            return set(listening(self.pid).values())
        return set()

    def _our_files(self):
        return [
            Path(folder, path.name)
            for folder in ("/tmp", "/dev/shm")
            for path in sorted(self._seen_from_here(folder).glob("jupyter-dist-*"))
        ]

    def _seen_from_here(self, path):
        """Where this machine finds a file of the host, in memory too while it is up."""
        return Path(f"/proc/{self.pid}/root/{path}") if self.pid else self.path(path)


def _is_listener(process):
    command = " ".join(command_of(process))
    return process.name() == "sshd" and "[listener]" in command


def _is_ours(process):
    """Tell whether it is a part of jupyter-dist, or anything else in our Python."""
    if any("jupyter_dist" in word or "jupyter-dist" in word for word in command_of(process)):
        return True
    with contextlib.suppress(OSError):
        # Not by its path: that of another mount namespace says little here.
        return os.path.samestat(os.stat(f"/proc/{process.pid}/exe"), _our_python())
    return False


@functools.cache
def _our_python():
    return os.stat(sys.executable)
