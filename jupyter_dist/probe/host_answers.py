"""What a host answers when the doctor asks: its time, whom it reaches, whether a file is there.

The source of this file is sent to a host behind that of host_report.py, and both are run as one
by whatever Python answers there: standard library only, and what Python 3.6 understands.

Commands come on stdin, as JSON lines; each answer is a line that begins with a mark, because
shell profiles print what they like. The end of stdin ends everything here.
"""

import contextlib
import errno
import glob
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from typing import IO, Any, Callable, Dict  # noqa: UP035  (what Python 3.6 has)

SILENCE_S = 120.0
"""Without a command for so long the doctor is out of reach: end, as a cut line never would."""
MARKER_PREFIX = ".jupyter-dist-check-"
_OLD_MARKER_S = 3600.0
_WORD_LENGTH = 64
_UNREACHABLE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_Command = Dict[str, Any]  # noqa: UP006


class HostAnswers:
    """Answers commands; holds listeners and a marker file until it leaves."""

    def __init__(self, report: "Callable[[], dict[str, Any]]") -> None:
        self._report = report
        self._markers = []  # type: list[str]

    def answer(self, command: _Command) -> "dict[str, Any]":
        """Do one command; raises KeyError for one that does not exist."""
        return {
            "hello": lambda _command: {},
            "report": lambda _command: self._report(),
            "clock": lambda _command: {"time_s": time.time()},
            "listen": self._listen,
            "reach": self._reach,
            "touch": self._touch,
            "look": self._look,
        }[command["do"]](command)

    def leave(self) -> None:
        """Remove the marker files."""
        for path in self._markers:
            with contextlib.suppress(OSError):
                os.unlink(path)

    def _listen(self, command: _Command) -> "dict[str, Any]":
        """Tell a word to everyone who connects, to prove that this is the right host."""
        ports = {}
        for name, family in (("port", socket.AF_INET), ("port6", socket.AF_INET6)):
            with contextlib.suppress(OSError):  # this kernel speaks only one of them
                listener = _open_listener(family, command.get("ports", [0]))
                told = (listener, command["word"].encode("ascii"))
                threading.Thread(target=_tell, args=told, daemon=True).start()
                ports[name] = listener.getsockname()[1]
        return ports

    def _reach(self, command: _Command) -> "dict[str, Any]":
        """Try every (address, port, word) at once; gives for each how it ended."""
        attempts = [_Attempt(*target) for target in command["targets"]]
        deadline_s = time.monotonic() + command["timeout_s"]
        waiting = {attempt.fileno: attempt for attempt in attempts if not attempt.outcome}
        poll = select.poll()
        for fileno, attempt in waiting.items():
            poll.register(fileno, attempt.events)
        while waiting and time.monotonic() < deadline_s:
            for fileno, _ in poll.poll(100):
                attempt = waiting[fileno]
                attempt.go_on()
                if attempt.outcome:
                    poll.unregister(fileno)
                    waiting.pop(fileno).close()
                else:
                    poll.modify(fileno, attempt.events)
        for attempt in waiting.values():
            attempt.give_up()
        return {"results": [[attempt.outcome, attempt.own_address] for attempt in attempts]}

    def _touch(self, command: _Command) -> "dict[str, Any]":
        """Make a file in the home directory, and remove those that others had to leave."""
        home = os.path.expanduser("~")
        for path in glob.glob(os.path.join(glob.escape(home), f"{MARKER_PREFIX}*")):
            with contextlib.suppress(OSError):
                if time.time() - os.stat(path).st_mtime > _OLD_MARKER_S:
                    os.unlink(path)
        path = os.path.join(home, MARKER_PREFIX + command["name"])
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as problem:
            return {"problem": problem.strerror}
        self._markers.append(path)
        return {"problem": ""}

    def _look(self, command: _Command) -> "dict[str, Any]":
        home = os.path.expanduser("~")
        names = command["names"]
        return {"seen": [n for n in names if os.path.exists(os.path.join(home, MARKER_PREFIX + n))]}


class _Attempt:
    """One connection that is tried, up to the word that proves who is there."""

    def __init__(self, address: str, port: int, word: str) -> None:
        self.outcome = ""
        self.own_address = ""
        self.events = select.POLLOUT
        self.fileno = -1
        self._word = word.encode("ascii")
        self._heard = b""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = None  # type: socket.socket | None
        try:
            self._socket = socket.socket(family, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            self._judge(self._socket.connect_ex((address, port)))
            self.fileno = self._socket.fileno()
        except OSError as problem:
            self._judge(problem.errno or errno.EINVAL)
        if self.outcome:
            self.close()

    def go_on(self) -> None:
        """Take the step that the socket is ready for."""
        assert self._socket is not None
        if self.events == select.POLLOUT:
            self._judge(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            if not self.outcome:
                self.own_address = self._socket.getsockname()[0]
                self.events = select.POLLIN
            return
        try:
            heard = self._socket.recv(_WORD_LENGTH)
        except OSError:
            heard = b""
        self._heard += heard
        if self._heard == self._word:
            self.outcome = "ok"
        elif not heard or not self._word.startswith(self._heard):
            self.outcome = "other"

    def give_up(self) -> None:
        """End an attempt whose time is over: nobody answered, or it was someone mute."""
        self.outcome = "silent" if self.events == select.POLLOUT else "other"
        self.close()

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()

    def _judge(self, number: int) -> None:
        if number == errno.ECONNREFUSED:
            self.outcome = "refused"
        elif number == errno.ETIMEDOUT:
            self.outcome = "silent"
        elif number in _UNREACHABLE:
            self.outcome = "unreachable"
        elif number not in (0, errno.EINPROGRESS):
            self.outcome = os.strerror(number)


def serve(
    mark: str,
    report: "Callable[[], dict[str, Any]]",
    programs: "list[Any]",
    silence_s: float = SILENCE_S,
) -> None:
    """Answer what comes on stdin until that ends, and leave nothing; does not return."""
    answers = HostAnswers(report)

    def leave(*_signal: Any) -> None:
        answers.leave()
        for program in list(programs):
            program.kill()
        os._exit(0)  # without waiting for threads that try to reach someone

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, leave)
    # Commands are done in threads of their own, so that the end of stdin is seen at any time.
    while True:
        timer = threading.Timer(silence_s, leave)
        timer.daemon = True
        timer.start()
        line = sys.stdin.buffer.readline()
        timer.cancel()
        command = json.loads(line.decode("ascii")) if line else {"do": "end"}
        if command["do"] == "end":
            leave()
        parts = (answers, command, mark, sys.stdout.buffer)
        threading.Thread(target=_answer, args=parts, daemon=True).start()


def _answer(answers: HostAnswers, command: _Command, mark: str, output: "IO[bytes]") -> None:
    try:
        said = answers.answer(command)
    except Exception as problem:  # noqa: BLE001  (whatever it is, the doctor wants to know)
        said = {"error": f"{type(problem).__name__}: {problem}"}
    said["id"] = command["id"]
    line = f"{mark} {json.dumps(said)}\n".encode("ascii")
    with contextlib.suppress(OSError):  # nobody listens any more: stdin ends as well
        output.write(line)
        output.flush()


def _open_listener(family: int, ports: "list[int]") -> socket.socket:
    """Listen on the first of these ports that is free (0: any); raises OSError when none is."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after an earlier check
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    for port in ports:
        with contextlib.suppress(OSError):
            listener.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", port))  # noqa: S104
            listener.listen(512)
            return listener
    listener.close()
    raise OSError(errno.EADDRINUSE, "none of these ports is free")


def _tell(listener: socket.socket, word: bytes) -> None:
    while True:
        try:
            connection, _ = listener.accept()
            connection.sendall(word)
            connection.close()
        except OSError:
            time.sleep(0.01)  # whoever it was is gone, or there are too many at once
