"""Helper processes that frameworks need: started on request, ended with this agent."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import msgspec

from jupyter_dist.frameworks.services import Answer
from jupyter_dist.model.hosts.addresses import join_address
from jupyter_dist.protocol import host_agent_pb2 as pb

ANSWER_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 2.0
_LAST_BYTES = 2000
_LAST_LINES = 5


class Services:
    """The helper processes of this host, by the request that each was started with."""

    def __init__(self, run_dir: Path, tell: Callable[[pb.AgentEvent], None]) -> None:
        self._run_dir = run_dir
        self._tell = tell
        self._numbers = count(1)
        self._bind_host = "127.0.0.1"
        self._env: Mapping[str, str] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def live_like(self, bind_host: str, env: Mapping[str, str]) -> None:
        """Be at the address, and in the environment, of this host's engines."""
        self._bind_host, self._env = bind_host, env

    def obey(self, command: pb.AgentCommand) -> None:
        """Start or end one; on the main thread, because what a thread has started ends with it."""
        match command.WhichOneof("command"):
            case "start_service":
                self._start(command.start_service)
            case "end_service":
                process = self._processes.get(command.end_service.request_id)
                if process is not None:
                    process.kill()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(_END_TIMEOUT_S)  # the next one may be for the same port

    def close(self) -> None:
        """End all, and wait until they are gone."""
        for process in list(self._processes.values()):
            process.kill()
            process.wait()

    def _start(self, wish: pb.StartService) -> None:
        bind = wish.bind or join_address(self._bind_host, 0)
        log = self._run_dir / f"service-{wish.service}-{next(self._numbers)}.log"
        try:
            with log.open("wb") as errors:
                process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-m", "jupyter_dist.launch.processes.process_life"),
                        *(str(os.getpid()), "jupyter_dist.frameworks.services"),
                        *(wish.service, bind, str(wish.world_size)),
                    ],
                    stdin=subprocess.PIPE,  # a lifeline as well: it ends when this is closed
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                    env={**os.environ, **self._env},
                )
        except OSError as error:
            self._answer(wish, Answer(problem=f"its process cannot be started: {error}"))
            return
        self._processes[wish.request_id] = process
        threading.Thread(
            target=self._watch, args=(wish, process, log), name="service", daemon=True
        ).start()

    def _watch(self, wish: pb.StartService, process: subprocess.Popen[bytes], log: Path) -> None:
        """Tell what a process answers, and reap it in the end."""
        with process:
            answer = _read_answer(process)
            if not answer.address:
                process.kill()
                process.wait()
            if not (answer.address or answer.problem):
                ended = f"its process ended before it served ({_describe(process.returncode)})"
                answer = Answer(problem=f"{ended}. It said last:\n{_last_lines(log)}")
            self._answer(wish, answer)
            status = process.wait()
        self._processes.pop(wish.request_id, None)
        if answer.address:
            self._answer(wish, Answer(problem=f"its process has ended ({_describe(status)})"))

    def _answer(self, wish: pb.StartService, answer: Answer) -> None:
        why = answer.problem
        problem = f"there is no {wish.service} service: {why}" if why else ""
        started = pb.ServiceStarted(
            request_id=wish.request_id, address=answer.address, problem=problem
        )
        self._tell(pb.AgentEvent(service_started=started))


def _read_answer(process: subprocess.Popen[bytes]) -> Answer:
    """Wait for the line that it says first; an empty Answer: it ended without one."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(ANSWER_TIMEOUT_S):
            return Answer(problem=f"it has not answered for {ANSWER_TIMEOUT_S:g} s")
    line = process.stdout.readline()  # whole: it is written at once
    try:
        return msgspec.json.decode(line, type=Answer) if line else Answer()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Answer(problem=f"it has said what is no answer: {line[:_LAST_BYTES]!r}")


def _describe(status: int) -> str:
    """Return how a process ended, as `exit code 1` or `SIGSEGV`."""
    return signal.Signals(-status).name if status < 0 else f"exit code {status}"


def _last_lines(log: Path) -> str:
    try:
        text = log.read_bytes()[-_LAST_BYTES:].decode(errors="replace")
    except OSError as error:
        return str(error)
    return "\n".join(text.splitlines()[-_LAST_LINES:])
