"""The relay in a process of its own: JAX may wait for its service while it holds the interpreter.

`reached_sync_point` of JAX's preemption manager does: a thread of C++ waits for the service and
keeps a lock, the main thread waits for that lock and keeps Python's. A relay on a thread of the
same interpreter could not pass the answer on, and the rank would be stuck for ever.

    python -P -m jupyter_dist.frameworks.jax.service.relay_process PARENT_PID

It reads the service's address, a line, and answers with a line of JSON, a `services.Answer`; later
it says why in a second line when the service is gone. It ends with its parent, or when its stdin is
closed.
"""

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
from typing import NoReturn

import msgspec

from jupyter_dist.errors import DistError, FrameworkError, UsageError
from jupyter_dist.frameworks.jax.service.relay import CONNECT_TIMEOUT_S, Relay
from jupyter_dist.frameworks.services import Answer

ANSWER_TIMEOUT_S = CONNECT_TIMEOUT_S + 10.0
_END_TIMEOUT_S = 1.0
_LOOK_INTERVAL_S = 1.0
_MOST_BYTES = 1000
_LOOKS = 2
_COMMAND = (sys.executable, "-P", "-m", "jupyter_dist.frameworks.jax.service.relay_process")


class RelayProcess:
    """A relay for JAX's client in this process, which must not share its interpreter."""

    def __init__(self, target: str) -> None:
        """Reach for the service; raises FrameworkError when it is not there, and UsageError."""
        self._process = _SPARE.pop() if _SPARE else _start()
        self._why_gone = ""
        try:
            self.address = self._ask(target)
            """What JAX's client is to connect to."""
        except BaseException:
            self.close()
            raise

    def _ask(self, target: str) -> str:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(BrokenPipeError):  # its silence is told below
            stdin.write(f"{target}\n".encode())
            stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            line = stdout.readline() if selector.select(ANSWER_TIMEOUT_S) else b""
        if not line:
            raise FrameworkError("the process that passes JAX's messages on could not be started")
        try:
            answer = msgspec.json.decode(line, type=Answer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            said = f"the process that passes JAX's messages on said {line[:200]!r}"
            raise FrameworkError(f"{said}, which is no answer: {error}") from error
        if answer.problem:
            raise (UsageError if answer.is_usage else FrameworkError)(answer.problem)
        os.set_blocking(stdout.fileno(), False)
        return answer.address

    @property
    def why_gone(self) -> str:
        """Why nothing reaches the service any more; empty: it is there."""
        stdout = self._process.stdout
        if not self._why_gone and stdout is not None and not stdout.closed:
            with contextlib.suppress(BlockingIOError):
                said = os.read(stdout.fileno(), _MOST_BYTES).decode(errors="replace").strip()
                self._why_gone = said or self._describe_end()
        return self._why_gone

    def _describe_end(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_TIMEOUT_S)
        ended = self._process.returncode
        return f"the process that passes JAX's messages on has ended (status {ended})"

    def close(self) -> None:
        """Cut all connections: a client of JAX that is still there ends the process."""
        with self._process as process:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


_SPARE: list[subprocess.Popen[bytes]] = []
"""One that was started in time."""


def prepare() -> None:
    """Start one that the next RelayProcess takes, because that takes longer than all the rest."""
    if not _SPARE:
        # What is in the way is told to who needs it, and not to an `import jax`.
        with contextlib.suppress(FrameworkError):
            _SPARE.append(_start())


def _start() -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [*_COMMAND, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
    except OSError as error:
        raise FrameworkError(
            f"the process that passes JAX's messages on could not be started: {error}"
        ) from error


def main(parent_pid: int) -> NoReturn:
    """Relay until the parent is gone, or wants no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A batch system sends it to all processes of a job; ours end with their rank.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    target = sys.stdin.buffer.readline()  # all there is: nothing more is ever said
    if target:
        answer = _serve(target.decode().strip(), parent_pid)
        os.write(1, msgspec.json.encode(answer) + b"\n")
        if answer.address:
            _stay(parent_pid)
    os._exit(0)


def _serve(target: str, parent_pid: int) -> Answer:
    """Begin to relay, on a thread of its own."""

    def admits(connection: socket.socket) -> bool:
        # The table of connections may lack one that is there when others end meanwhile.
        return any(_is_from(parent_pid, connection) for _ in range(_LOOKS))

    try:
        relay = Relay(target, lambda why: os.write(1, f"{why}\n".encode()), admits)
    except DistError as error:
        return Answer(problem=str(error), is_usage=isinstance(error, UsageError))
    return Answer(relay.address)


def _is_from(pid: int, connection: socket.socket) -> bool:
    """Return whether a process of this host holds the other end; True where that cannot be told.

    Others come as well: a client of ZeroMQ tries the port of a peer that has ended for ever, and
    the port may be ours by now.
    """
    try:
        ports = connection.getpeername()[1], connection.getsockname()[1]
    except OSError:  # it has gone
        return False
    import psutil

    try:
        held = psutil.Process(pid).net_connections("tcp")
    except (psutil.Error, OSError):
        return True
    return any(each.raddr and (each.laddr.port, each.raddr.port) == ports for each in held)


def _stay(parent_pid: int) -> None:
    """Wait for the end of the parent: forks of it may keep stdin open."""
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        while os.getppid() == parent_pid and not selector.select(_LOOK_INTERVAL_S):
            continue


if __name__ == "__main__":
    main(int(sys.argv[1]))
