"""The doctor's scripts on many hosts at once: started, asked, and ended whatever happens.

One thread looks after all of them, so that Ctrl-C ends everything at once. A script ends by
itself when its stdin does, so nothing stays behind where this process is killed.
"""

import contextlib
import inspect
import json
import os
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any, Self, TypeAlias, cast

import msgspec

from jupyter_dist.probe import host_answers, host_report

STARTER = (
    # What lies in the home directory must not be taken for a module.
    "import sys;sys.path[:]=[p for p in sys.path if p];i=sys.stdin.buffer;"
    "exec(compile(i.read(int(i.readline())),'<jupyter-dist check>','exec'),"
    "{'__name__':'jupyter_dist_check'})"
)
"""What a host's Python is given with -c: reads a program from stdin and becomes it."""
Command: TypeAlias = Mapping[str, Any]
_SLICE_S = 0.2
_END_S = 2.0
_CHUNK = 1 << 16
_KEPT_STDERR = 1 << 14


class Answer(msgspec.Struct, frozen=True):
    """What a host said, and when by our clock its question was sent and the answer was here."""

    said: dict[str, Any]
    asked_s: float
    heard_s: float


class Ended(msgspec.Struct, frozen=True):
    """A script that ended, or was given up, before it had answered."""

    status: int | None
    """None: it did not answer in time."""
    stderr: str
    has_greeted: bool


class HostScript:
    """One script and its three pipes."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # or Ctrl-C in a terminal would end ssh before we say so
        )
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._pipes = [cast("IO[bytes]", pipe) for pipe in pipes]
        self._stdin, self._stdout, self._stderr = self._pipes
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        self._mark = f"jupyter-dist-answer-{secrets.token_hex(8)}"
        self._unsent = _program(self._mark)
        self._received = b""
        self._said_last = b""
        self._is_over: set[int] = set()
        self._asked_s = 0.0
        self._number = 0
        self.answer: Answer | None = None
        """To the last command."""
        self.has_greeted = False

    def ask(self, command: Command) -> None:
        """Send a command; its answer comes by and by."""
        self.answer = None
        self._number += 1
        self._unsent += json.dumps({**command, "id": self._number}).encode("ascii") + b"\n"
        self._asked_s = time.time()

    def waits_for(self) -> dict[int, int]:
        """Return for each pipe that is open what to poll it for."""
        pipes = {pipe.fileno(): select.POLLIN for pipe in (self._stdout, self._stderr)}
        if self._unsent and not self._stdin.closed:
            pipes[self._stdin.fileno()] = select.POLLOUT
        return {fileno: wish for fileno, wish in pipes.items() if fileno not in self._is_over}

    def go_on(self, fileno: int) -> None:
        """Do what a pipe is ready for."""
        if not self._stdin.closed and fileno == self._stdin.fileno():
            self._write()
        elif fileno == self._stdout.fileno():
            self._received += self._read(fileno)
            *lines, self._received = self._received.split(b"\n")
            for line in lines:
                self._take(line)
        else:
            self._said_last = (self._said_last + self._read(fileno))[-_KEPT_STDERR:]

    def status(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._process.poll()

    def ended(self) -> Ended:
        """Return how it ended, with the last of what it had to say."""
        status = self.status()
        if status is not None:
            for pipe in (self._stdout, self._stderr):
                self.go_on(pipe.fileno())
        stderr = self._said_last.decode("utf-8", "replace")
        return Ended(status, stderr, self.has_greeted)

    def hang_up(self) -> None:
        """Let it end on its own; one that has not come so far is ended."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        if not self.has_greeted:
            self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End what is left of it on this machine, and close its pipes."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        """Signal it with all that it has started here, as the ssh to a jump host."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def _write(self) -> None:
        asked_s = time.time()  # before it is out: an answer may be there before this goes on
        try:
            sent = os.write(self._stdin.fileno(), self._unsent[:_CHUNK])
        except BlockingIOError:
            return
        except OSError:  # it has ended; its status says the rest
            self._unsent = b""
            return
        self._unsent = self._unsent[sent:]
        self._asked_s = asked_s

    def _read(self, fileno: int) -> bytes:
        try:
            chunk = os.read(fileno, _CHUNK)
        except BlockingIOError:
            return b""
        if not chunk:
            self._is_over.add(fileno)
        return chunk

    def _take(self, line: bytes) -> None:
        """Take in a line; shell profiles may have written anything before the mark."""
        _, mark, text = line.decode("utf-8", "replace").partition(self._mark)
        if not mark:
            return
        said = json.loads(text)
        self.has_greeted = True
        if said.pop("id") == self._number:
            self.answer = Answer(said, self._asked_s, time.time())


class HostScripts:
    """Many of them; leaving the block ends every one."""

    def __init__(self) -> None:
        self._scripts: dict[str, HostScript] = {}
        self.ended: dict[str, Ended] = {}
        """Those that ended before they were asked to."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        scripts = list(self._scripts.values())
        try:
            for script in scripts:
                script.hang_up()
            deadline_s = time.monotonic() + _END_S
            while any(s.status() is None for s in scripts) and time.monotonic() < deadline_s:
                self._turn(0.01)
        finally:
            for script in scripts:
                script.kill()
            self._scripts.clear()

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a script; raises OSError when there is no such program."""
        self._scripts[name] = HostScript(command)

    def ask(self, commands: Mapping[str, Command], within_s: float) -> dict[str, Answer]:
        """Send each host its command and give the answers; who ends or stays mute is dropped."""
        asked = {name: self._scripts[name] for name in commands if name in self._scripts}
        for name, script in asked.items():
            script.ask(commands[name])
        deadline_s = time.monotonic() + within_s
        waiting = dict(asked)
        while waiting and (left_s := deadline_s - time.monotonic()) > 0:
            self._turn(min(left_s, _SLICE_S))
            for name, script in list(waiting.items()):
                if script.answer is not None:
                    del waiting[name]
                elif script.status() is not None:
                    self._drop(name)
                    del waiting[name]
        for name in waiting:
            self._drop(name)
        return {name: s.answer for name, s in asked.items() if s.answer is not None}

    def _turn(self, within_s: float) -> None:
        """Wait for something to happen on a pipe, and let it."""
        poll = select.poll()
        owners: dict[int, HostScript] = {}
        for script in self._scripts.values():
            for fileno, wish in script.waits_for().items():
                owners[fileno] = script
                poll.register(fileno, wish)
        for fileno, _ in poll.poll(within_s * 1000):
            owners[fileno].go_on(fileno)

    def _drop(self, name: str) -> None:
        script = self._scripts.pop(name)
        try:
            self.ended[name] = script.ended()
        finally:
            script.kill()


def _program(mark: str) -> bytes:
    """Write the program for a host: its length in bytes on a line, then the source."""
    parts = (inspect.getsource(host_report), inspect.getsource(host_answers))
    source = "".join((*parts, f"\nserve({mark!r}, report, PROGRAMS)\n")).encode()
    return b"%d\n%s" % (len(source), source)
