"""One agent's whole life: wake the zygote, find home, serve, leave nothing.

The zygote comes first, because its imports take longest; what the agent itself needs is imported
while the zygote wakes. So the imports at the top are those without which it cannot be started.
"""

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING

from jupyter_dist.agent.engines.zygote_process import ZygoteProcess
from jupyter_dist.errors import DistError, StartFailed, UsageError, VersionMismatch
from jupyter_dist.launch.processes.descendants import adopt_orphans
from jupyter_dist.launch.processes.loading import loading
from jupyter_dist.launch.processes.process_life import die_with_parent, process_lives
from jupyter_dist.version import WIRE, __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_dist.launch.launcher import JoinTicket

ZYGOTE_END_TIMEOUT_S = 5.0
SILENCE_TIMEOUT_S = 10
"""Before the invitation ssh brings a line every 2 s; after such a silence it is cut off."""


def main() -> int:
    """Serve one cluster on this host; gives the exit status."""
    options = _read_options()
    if options.parent_pid:
        die_with_parent(options.parent_pid, signal.SIGTERM)
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, lambda *_: sys.exit(1))
    # Ctrl-C ends an agent that was started by hand; others must not hear the notebook's.
    signal.signal(signal.SIGINT, (lambda *_: sys.exit(1)) if options.join else signal.SIG_IGN)
    adopt_orphans()  # those of a zygote that was killed
    try:
        # A join file that cannot be read is told before anything is started.
        joining = None
        if options.join and not options.sealed:
            from pathlib import Path

            from jupyter_dist.launch.files.join_file import read_join_file

            joining = read_join_file(Path(options.join))
        with _directories() as make_directories, _zygote(options.start_method) as zygote:
            run_dir, memory_dir = make_directories()
            zygote.move_in(run_dir)
            if options.over_ssh:
                _greet()
            if options.sealed:
                ticket = _receive_sealed()
            else:
                ticket = joining or _read_invitation(options.over_ssh)
            if ticket is not None:
                _serve(ticket, options, (run_dir, memory_dir), zygote)
    except DistError as error:
        sys.stderr.write(f"jupyter-dist: {error}\n")
        return _status_of(error)
    finally:
        if options.parent_pid and not process_lives(options.parent_pid):
            from jupyter_dist.launch.files.connection_file import remove_files_of_killed

            remove_files_of_killed()
    return 0


def _status_of(error: DistError) -> int:
    """Return the exit status, as `jupyter dist` has it where no other is agreed on."""
    from jupyter_dist.agent.connection.dial import CoordinatorUnreachable
    from jupyter_dist.launch.launcher import HOME_UNREACHABLE

    if isinstance(error, CoordinatorUnreachable):
        return HOME_UNREACHABLE
    return 2 if isinstance(error, UsageError) else 1


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="jupyter_dist.agent")
    # Elsewhere libraries of the system (BLAS and network of macOS) do not survive a fork.
    usual = "fork" if sys.platform == "linux" else "spawn"
    parser.add_argument("--start-method", default=usual, choices=("fork", "spawn"))
    parser.add_argument("--parent-pid", type=int, default=0)
    parser.add_argument("--over-ssh", action="store_true")
    parser.add_argument("--join", default="")
    parser.add_argument("--sealed", action="store_true")
    parser.add_argument("--name", default="")
    parser.add_argument("--slots", type=int, default=0)
    return parser.parse_args()


def _serve(
    ticket: "JoinTicket",
    options: argparse.Namespace,
    directories: "tuple[Path, Path]",
    zygote: ZygoteProcess,
) -> None:
    """Find home and attend; raises DistError when there is no way, or no welcome."""
    from jupyter_dist.agent.agent import Agent
    from jupyter_dist.agent.connection.dial import find_home

    if ticket.wire != WIRE:
        raise VersionMismatch(WIRE, ticket.wire)
    orphan = threading.Event()
    if options.over_ssh:
        _end_without_ssh(orphan)
    try:
        found = find_home(ticket)
    except DistError as error:
        if not options.join or options.sealed:
            raise
        raise StartFailed(f"{error}. {_describe_age(ticket.good_until_s)}") from error

    def on_admitted(host: str) -> None:
        if options.sealed:
            _say_last("joined")  # who has started this agent may end before it does
        elif options.join:
            sys.stderr.write(
                f"joined cluster {ticket.cluster} as {host}; this agent ends with it\n"
            )
        else:
            orphan.set()

    agent = Agent(ticket, found, directories, zygote, on_admitted)
    agent.introduce(options.name or ticket.host, options.slots)
    agent.serve()


def _describe_age(good_until_s: float) -> str:
    """Say of a join file whether it can still be good, and what to do if not."""
    until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(good_until_s))
    if good_until_s < time.time():
        return f"The join file was good until {until}; start the cluster again for a new one"
    return f"The join file is good until {until}, unless the start is over or the cluster has ended"


def _receive_sealed() -> "JoinTicket | None":
    """Say a key, and read the invitation that is sealed with it; None at the end of stdin."""
    from base64 import b64decode

    import msgspec

    from jupyter_dist.launch.launcher import JoinTicket
    from jupyter_dist.launch.sealing import Readiness, SealedBox

    box = SealedBox()
    readiness = Readiness(WIRE, __version__, box.public_key)
    sys.stdout.write(f"{msgspec.json.encode(readiness).decode()}\n")
    sys.stdout.flush()
    line = sys.stdin.buffer.readline()
    if not line:
        return None
    return msgspec.json.decode(box.open(b64decode(line)), type=JoinTicket)


def _greet() -> None:
    """Say what is here before anything secret is sent."""
    import msgspec

    from jupyter_dist.launch.launcher import GREETING, AgentHello

    hello = AgentHello(WIRE, __version__, sys.executable)
    _say_last(f"{GREETING}{msgspec.json.encode(hello).decode()}")


def _say_last(line: str) -> None:
    """Say a line to who has started this agent; from then on stdout is as good as stderr."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    os.dup2(2, 1)


def _read_invitation(is_over_ssh: bool) -> "JoinTicket | None":
    """Read it from stdin; None when the coordinator ended before it could invite us.

    Over ssh empty lines come before it: to a host that was cut off nothing else tells the end.
    """
    with loading():
        import msgspec

        import jupyter_dist.agent.agent  # noqa: F401  (needed later, and now there is time)
        from jupyter_dist.launch.launcher import JoinTicket

    while True:
        signal.alarm(SILENCE_TIMEOUT_S if is_over_ssh else 0)
        line = sys.stdin.buffer.readline()
        signal.alarm(0)
        if line != b"\n":
            return msgspec.json.decode(line, type=JoinTicket) if line else None


def _end_without_ssh(is_admitted: threading.Event) -> None:
    """End this agent when ssh goes before the coordinator has taken it in.

    Later the stream to the coordinator counts, not ssh's connection.
    """

    def watch() -> None:
        # Not through sys.stdin: a thread inside it would break the end of the interpreter.
        while os.read(0, 4096):
            continue
        if not is_admitted.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="ssh-watch", daemon=True).start()


@contextlib.contextmanager
def _directories() -> "Iterator[Callable[[], tuple[Path, Path]]]":
    """Give what makes the private directories, and remove them in the end."""
    made: list[Path] = []

    def make() -> "tuple[Path, Path]":
        from jupyter_dist.launch.processes.private_dir import make_memory_dir, make_private_dir

        made.append(run_dir := make_private_dir())
        made.append(memory_dir := make_memory_dir())
        (run_dir / "ipython").mkdir()
        return run_dir, memory_dir

    try:
        yield make
    finally:
        for directory in made:
            with contextlib.suppress(OSError):
                _remove(directory)


@contextlib.contextmanager
def _zygote(start_method: str) -> "Iterator[ZygoteProcess]":
    """Wake the zygote, and end it in the end."""
    zygote = ZygoteProcess(start_method)
    try:
        yield zygote
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not break the cleaning
        zygote.end(ZYGOTE_END_TIMEOUT_S)


def _remove(directory: "Path") -> None:
    """Remove the directory; engines that are just ending may still write into it for a moment."""
    import shutil

    deadline_s = time.monotonic() + ZYGOTE_END_TIMEOUT_S
    while directory.exists():
        shutil.rmtree(directory, ignore_errors=time.monotonic() < deadline_s)


if __name__ == "__main__":
    sys.exit(main())
