"""An engine that is not born yet: everything imported once, forked for each rank.

One interpreter start per host gives every engine the same hash seed and shares its memory.
It stays single-threaded, without a ZeroMQ context, gRPC or CUDA, because forking with any of
them alive breaks the child; that is checked before ranks are forked.

What every cell needs is imported here, and what a rank needs that is in trouble (its memory or its
disk is full, or it hangs): an import could fail there, or keep an answer waiting. What only some
ranks ever use is imported by them, at its first use.

It speaks with its agent in lines: the agent's directory and then births as JSON come on stdin,
events leave on stdout as JSON.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, NoReturn

import msgspec

from jupyter_dist.engine.host_relay import HostRelay
from jupyter_dist.engine.shared_pages import gather_code, make_names_first, read_run_by_ranks
from jupyter_dist.launch.processes.descendants import adopt_orphans, end_children, end_orphans
from jupyter_dist.launch.processes.loading import loading
from jupyter_dist.launch.processes.open_files import usable_cores
from jupyter_dist.launch.processes.private_dir import sweep_private_dirs
from jupyter_dist.launch.processes.process_life import die_with_parent, process_lives
from jupyter_dist.protocol.births import EngineConfig, ZygoteEvent, ZygoteRequest

if TYPE_CHECKING:
    from jupyter_dist.engine.shell.rank_shell import RankShell

_FEW_BY_CORE = 4
"""More ranks than this on each core would keep an interrupt of all of them waiting with what their
first traceback needs: then it is made here, once."""
_TOLD_TOGETHER = 16
"""Starts in one event: to the coordinator an event costs more than an engine in it."""
LAST_PATIENCE_S = 4.0
"""In which everything that ranks have started must have ended, when the zygote ends."""
_forget_lookups = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache  # noqa: SLF001
"""Python keeps the names that were looked up in types last. Each one that a rank adds takes the
place of another, whose count of references goes down, on a page that would else stay shared.
"""
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which the kernel counts the memory of a process that has ended."""


class Zygote:
    """Forks (or spawns) engines on request and tells when they end."""

    def __init__(self, shell: "RankShell | None", requests: BinaryIO) -> None:
        """Take what is forked; None: engines are spawned."""
        self._shell = shell
        self._engines: dict[int, str] = {}
        """Their names, by process."""
        self._lifelines: dict[int, IO[bytes]] = {}
        """Pipes to those that were spawned: their end tells that this process has ended."""
        self._relay = HostRelay()
        self._events = os.dup(1)
        self._requests = requests
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(2, 1)  # whatever is printed here by mistake goes to the agent's log
        self._child_ended, wake = os.pipe()
        for end in (self._child_ended, wake):
            os.set_blocking(end, False)
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
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if self._child_ended in ready:
                os.read(self._child_ended, 4096)
                self._reap()
            if self._requests.fileno() in ready:
                line = self._requests.readline()
                if not line:
                    break
                self._start(msgspec.json.decode(line, type=ZygoteRequest))
        selector.close()
        for pid in self._engines:
            if sys.platform == "linux":
                os.kill(pid, signal.SIGKILL)
            else:  # where orphans are not adopted, and so not found below
                _kill_group(pid)
        end_children(LAST_PATIENCE_S)

    def _start(self, request: ZygoteRequest) -> None:
        shell = self._shell
        if shell is not None and len(request.births) > _FEW_BY_CORE * usable_cores():
            shell.warm_up_errors()
        try:
            if shell is not None:
                assert_safe_to_fork()  # once: nothing else happens here between these forks
        except UnsafeFork as error:
            for config in request.births:
                self._tell_failure(config, error)
            return
        fork = None if shell is None else self._fork
        births = iter(self._relay.serve(request.births, fork))
        while some := tuple(islice(births, _TOLD_TOGETHER)):
            if pids := dict(self._start_each(some)):
                self._tell(ZygoteEvent("started", pids=pids))

    def _start_each(self, births: Iterable[EngineConfig]) -> Iterator[tuple[str, int]]:
        """Start these engines; yield the names and processes of those that have one."""
        shell = self._shell
        for config in births:
            try:
                pid = self._spawn(config) if shell is None else self._fork_engine(config, shell)
            except OSError as error:  # those that live already go on
                self._tell_failure(config, error)
                continue
            self._engines[pid] = config.engine
            yield config.engine, pid

    def _tell_failure(self, config: EngineConfig, error: Exception) -> None:
        self._tell(ZygoteEvent("exited", config.engine, exit_code=1, reason=str(error)))

    def _fork_engine(self, config: EngineConfig, shell: "RankShell") -> int:
        zygote_pid = os.getpid()
        return self._fork(lambda: be_born(config, shell, zygote_pid))

    def _fork(self, live: Callable[[], NoReturn]) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                self._requests.close()
                for descriptor in (self._events, self._child_ended, self._wake):
                    os.close(descriptor)
                signal.set_wakeup_fd(-1)
                for number in (signal.SIGCHLD, signal.SIGTERM):
                    signal.signal(number, signal.SIG_DFL)
                live()
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                raise
            finally:  # whatever happens, a child never returns into the zygote's loop
                os._exit(1)
        return pid

    def _spawn(self, config: EngineConfig) -> int:
        """Start a new interpreter: where forking is not safe. Raise OSError."""
        engine = subprocess.Popen(
            [sys.executable, "-P", "-m", "jupyter_dist.engine", str(os.getpid())],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        assert engine.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # one that has ended already is reaped
            engine.stdin.write(msgspec.json.encode(config) + b"\n")
            engine.stdin.flush()
        self._lifelines[engine.pid] = engine.stdin
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
            with contextlib.suppress(KeyError, BrokenPipeError):
                self._lifelines.pop(pid).close()
            self._relay.on_end(pid, status)
            if pid in self._engines:
                if sys.platform != "linux":
                    _kill_group(pid)
                code = os.waitstatus_to_exitcode(status)
                engine = self._engines.pop(pid)
                event = ZygoteEvent(
                    "exited",
                    engine,
                    pid,
                    max(code, 0),
                    _number_on_the_wire(max(-code, 0)),
                    peak_bytes=used.ru_maxrss * _MAXRSS_UNIT,
                )
                self._tell(event)

    def _tell(self, event: ZygoteEvent) -> None:
        os.write(self._events, msgspec.json.encode(event) + b"\n")


def _kill_group(pid: int) -> None:
    """Kill what a process leads that was started in a session of its own, if any of it lives."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _number_on_the_wire(signal_number: int) -> int:
    if sys.platform != "linux":
        from jupyter_dist.model.ranks.signals import on_the_wire

        signal_number = on_the_wire(signal_number)
    return signal_number


class UnsafeFork(RuntimeError):
    """This process holds something that does not survive a fork."""


def assert_safe_to_fork() -> None:
    """Raise UnsafeFork when this process holds something that does not survive a fork."""
    from jupyter_dist.control.context import has_any_context

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


def be_born(config: EngineConfig, shell: "RankShell", zygote_pid: int) -> NoReturn:
    """Become the engine, in the forked child."""
    die_with_parent(zygote_pid)
    os.setsid()
    from jupyter_dist.engine.__main__ import live
    from jupyter_dist.engine.launch_config import prepare_process

    prepare_process(config)
    live(config, shell)


def _make_shell(requests: BinaryIO) -> "RankShell | None":
    """Return the shell of all ranks, with all that cells need; None at the end of the requests."""
    with loading():
        used = read_run_by_ranks()
        make_names_first(used.names)
        import jupyter_dist.engine.__main__
        import jupyter_dist.protocol.objects  # noqa: F401
        from jupyter_dist.engine.shell.rank_shell import make_shell
        from jupyter_dist.protocol.codec import to_engine

        to_engine()  # msgspec keeps what it has found out about each message, also in a fork
        run_dir = os.fsdecode(requests.readline().rstrip(b"\n"))
        if not run_dir:
            return None
        shell = make_shell(f"{run_dir}/ipython")
        gather_code(used.functions)
        shell.warm_up()
        _forget_lookups()
        return shell


def main() -> None:
    """Import and build everything once, unless engines are to do that themselves; then serve."""
    parent_pid, start_method = int(sys.argv[1]), sys.argv[2]
    die_with_parent(parent_pid)
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    shell = None
    if start_method == "fork":
        shell = _make_shell(requests)
        if shell is None:
            return  # the agent is ending already
    else:
        requests.readline()
    zygote = Zygote(shell, requests)
    # From here on the end of stdin tells that the agent was killed: what ranks have started must
    # not outlive it. The signal wakes a zygote that is stopped.
    die_with_parent(parent_pid, signal.SIGCONT)
    adopt_orphans()
    zygote.serve()
    if not process_lives(parent_pid):
        sweep_private_dirs()


if __name__ == "__main__":
    main()
