"""An engine that is not born yet: everything imported once, forked for each rank.

One interpreter start per host gives every engine the same hash seed and shares its memory.
It stays single-threaded, without a ZeroMQ context, gRPC or CUDA, because forking with any of
them alive breaks the child; that is checked before each fork.

It speaks with its agent in JSON lines: births come on stdin, events leave on stdout.
"""

import contextlib
import gc
import os
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import NoReturn

import msgspec

from jupyter_dist.control.context import has_any_context
from jupyter_dist.engine.launch_config import prepare_process
from jupyter_dist.engine.shell.rank_shell import RankShell, make_shell
from jupyter_dist.launch.processes.descendants import adopt_orphans, end_children, end_orphans
from jupyter_dist.launch.processes.private_dir import sweep_private_dirs
from jupyter_dist.launch.processes.process_life import die_with_parent, process_lives
from jupyter_dist.protocol.births import EngineConfig, ZygoteEvent, ZygoteRequest

LAST_PATIENCE_S = 4.0
"""In which everything that ranks have started must have ended, when the zygote ends."""
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which the kernel counts the memory of a process that has ended."""


class Zygote:
    """Forks (or spawns) engines on request and tells when they end."""

    def __init__(self, shell: RankShell, start_method: str) -> None:
        self._shell = shell
        self._start_method = start_method
        self._engines: dict[int, str] = {}
        """Their names, by process."""
        self._events = os.dup(1)
        self._requests = os.dup(0)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(2, 1)  # whatever is printed here by mistake goes to the agent's log
        self._child_ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wake = wake
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        # A batch system that ends a job sends SIGTERM to all its processes; the agent decides.
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, lambda *_: None)

    def serve(self) -> None:
        """Serve until the agent closes our stdin; then end every engine."""
        self._tell(ZygoteEvent("ready", pid=os.getpid()))
        selector = selectors.DefaultSelector()
        selector.register(self._requests, selectors.EVENT_READ)
        selector.register(self._child_ended, selectors.EVENT_READ)
        lines = os.fdopen(os.dup(self._requests), "rb", buffering=0)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if self._child_ended in ready:
                os.read(self._child_ended, 4096)
                self._reap()
            if self._requests in ready:
                line = lines.readline()
                if not line:
                    break
                self._start(msgspec.json.decode(line, type=ZygoteRequest))
        selector.close()
        for pid in self._engines:
            os.kill(pid, signal.SIGKILL)
        end_children(LAST_PATIENCE_S)

    def _start(self, request: ZygoteRequest) -> None:
        for config in request.births:
            try:
                pid = self._fork(config) if self._start_method == "fork" else self._spawn(config)
            except (OSError, UnsafeFork) as error:  # those that live already go on
                self._tell(ZygoteEvent("exited", config.engine, exit_code=1, reason=str(error)))
                continue
            self._engines[pid] = config.engine
            self._tell(ZygoteEvent("started", config.engine, pid))

    def _fork(self, config: EngineConfig) -> int:
        assert_safe_to_fork()
        zygote_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            try:
                for descriptor in (self._events, self._requests, self._child_ended, self._wake):
                    os.close(descriptor)
                be_born(config, self._shell, zygote_pid)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                raise
            finally:  # whatever happens, a child never returns into the zygote's loop
                os._exit(1)
        return pid

    def _spawn(self, config: EngineConfig) -> int:
        """Start a new interpreter: where forking is not safe."""
        engine = subprocess.Popen(
            [sys.executable, "-P", "-m", "jupyter_dist.engine"],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        assert engine.stdin is not None
        engine.stdin.write(msgspec.json.encode(config) + b"\n")
        engine.stdin.close()
        engine.returncode = 0  # reaped here with all others, not by Popen
        return engine.pid

    def _reap(self) -> None:
        self._reap_ended()
        end_orphans(self._engines)  # what cells have started falls to us, and ends with their rank

    def _reap_ended(self) -> None:
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._engines:
                if not sys.platform.startswith("linux"):  # where nobody adopts orphans
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(pid, signal.SIGKILL)
                code = os.waitstatus_to_exitcode(status)
                engine = self._engines.pop(pid)
                event = ZygoteEvent(
                    "exited",
                    engine,
                    pid,
                    max(code, 0),
                    max(-code, 0),
                    peak_bytes=used.ru_maxrss * _MAXRSS_UNIT,
                )
                self._tell(event)

    def _tell(self, event: ZygoteEvent) -> None:
        os.write(self._events, msgspec.json.encode(event) + b"\n")


class UnsafeFork(RuntimeError):
    """This process holds something that does not survive a fork."""


def assert_safe_to_fork() -> None:
    """Raise UnsafeFork when this process holds something that does not survive a fork."""
    threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0
    if max(threads, threading.active_count()) > 1:
        holds = f"has {threads} threads"
    elif has_any_context():
        holds = "has a ZeroMQ context"
    elif "grpc" in sys.modules:
        holds = "has imported gRPC"
    elif _is_mapped("libcuda.so"):
        holds = (
            "has loaded CUDA's driver (libcuda.so), which a sitecustomize.py or a .pth file must "
            "have done"
        )
    else:
        return
    raise UnsafeFork(f"the zygote {holds}; engines cannot be forked from it")


def _is_mapped(library: str) -> bool:
    """Return whether a library is in the memory of this process, whoever has loaded it."""
    with contextlib.suppress(OSError):
        return f"/{library}" in Path("/proc/self/maps").read_text("utf-8", "surrogateescape")
    return False


def be_born(config: EngineConfig, shell: RankShell, zygote_pid: int) -> NoReturn:
    """Become the engine, in the forked child."""
    die_with_parent(zygote_pid)
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    prepare_process(config)
    from jupyter_dist.engine.__main__ import live

    live(config, shell)


def main() -> None:
    """Import and build everything once, then serve."""
    parent_pid, run_dir, start_method = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    die_with_parent(parent_pid)

    import jupyter_dist.engine.__main__
    import jupyter_dist.protocol.objects  # noqa: F401

    shell = make_shell(f"{run_dir}/ipython")
    shell.warm_up()
    gc.collect()
    gc.freeze()  # keeps the collector from touching, and so copying, the shared pages
    zygote = Zygote(shell, start_method)
    # From here on the end of stdin tells that the agent was killed: what ranks have started must
    # not outlive it. The signal wakes a zygote that is stopped.
    die_with_parent(parent_pid, signal.SIGCONT)
    adopt_orphans()
    zygote.serve()
    if not process_lives(parent_pid):
        sweep_private_dirs()


if __name__ == "__main__":
    main()
