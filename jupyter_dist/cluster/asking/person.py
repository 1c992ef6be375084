"""A person is asked what a rank wants to know, while the cell goes on and is listened to."""

import _thread
import getpass
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from time import monotonic
from typing import Any

from jupyter_dist.cluster.asking.front_end import find_obstacle
from jupyter_dist.cluster.connection.connection import Connection
from jupyter_dist.protocol.messages import AnswerInput, AskPerson, InputOver, InputShown, ToClient

_SIGN_INTERVAL_S = 1.0
"""So often the coordinator hears that a person is still asked."""

_WAKE_INTERVAL_S = 0.2
_WAKING_SIGNAL = getattr(signal, "SIGURG", None)
"""Ends the system call that waits for the person, and means nothing else; Windows has none."""

_LEAVE_DEBUGGER = "all q"
"""Typed for the person that interrupts the prompt of a debugger: all ranks go on."""


class Prompt:
    """One question to the person: asked on the main thread, and ended on another one."""

    def __init__(self, question: AskPerson) -> None:
        self._question = question
        self._lock = threading.Lock()
        self._is_open = False
        """The person is asked, and has not answered."""
        self.is_over = False
        """No answer is needed any more."""

    def ask(self) -> AnswerInput | None:
        """Return what the person says, None if it is over; raise KeyboardInterrupt for Ctrl-C."""
        try:
            with _usual_interrupts():
                with self._lock:
                    if self.is_over:
                        return None
                    self._is_open = True
                text, problem = self._read()
                with self._lock:
                    self._is_open = False
        except KeyboardInterrupt:
            if self.is_over:
                return None
            if not self._question.who:
                raise
            text, problem = _LEAVE_DEBUGGER, ""  # the next interrupt is for the cell
        finally:
            self._is_open = False
        return answer_to(self._question, text, problem)

    def _read(self) -> tuple[str | None, str]:
        """Return what the person has typed (None: the end of input), or why none was asked."""
        question = self._question
        prompt = f"{name_asker(question)}: {question.prompt}"
        try:
            text = getpass.getpass(prompt) if question.is_password else input(prompt)
        except EOFError:
            return None, ""
        except Exception as problem:  # noqa: BLE001  (of a front end, or a terminal that is gone)
            return None, f"the person could not be asked ({type(problem).__name__}: {problem})"
        return text.encode(errors="replace").decode(), ""

    def end(self) -> None:
        """Take the question from the person, unless there is an answer already."""
        with self._lock:
            self.is_over = True
            if self._is_open:
                self._is_open = False
                _thread.interrupt_main()
                _wake_main()


class Signs:
    """Tell the coordinator now and then that a question has not been forgotten."""

    def __init__(self, line: Connection, question: AskPerson) -> None:
        self._line = line
        pid = 0 if line.is_far else os.getpid()
        self._shown = InputShown(question.cell_id, question.rank, question.number, pid)
        self._told_s = float("-inf")

    def give(self) -> None:
        """Give one if it is due."""
        if monotonic() - self._told_s >= _SIGN_INTERVAL_S:
            self._told_s = monotonic()
            self._line.send(self._shown)


class Interview:
    """One question of a rank to the person at this notebook or terminal, while the cell runs.

    `listen` is called on a thread for each message that comes meanwhile, and `rest` after each
    slice in which some may have come. Where the screen must not be touched while the person types
    (`is_held`), what comes is kept, and handed over by `ask` in the end.
    """

    def __init__(
        self,
        line: Connection,
        question: AskPerson,
        listen: Callable[[ToClient], None],
        rest: Callable[[], None],
        *,
        is_held: bool,
    ) -> None:
        self._line, self._question = line, question
        self._listen, self._rest, self._is_held = listen, rest, is_held
        self._held: list[ToClient] = []
        self._prompt = Prompt(question)
        self._is_done = False
        """The person is asked no longer."""
        self._problem: BaseException | None = None
        """What has gone wrong with the line."""

    def ask(self) -> None:
        """Ask, on the main thread, and send the answer; raises KeyboardInterrupt for Ctrl-C."""
        if obstacle := find_obstacle():
            self._line.send(answer_to(self._question, problem=obstacle))
            return
        thread = threading.Thread(target=copy_context().run, args=(self._listen_on,), daemon=True)
        thread.start()
        try:
            answer = self._prompt.ask()
        finally:
            self._is_done = True
            thread.join()
            for message in self._held:
                self._listen(message)
        if self._problem is not None:
            raise self._problem
        if answer is not None:
            self._line.send(answer)

    # --- on the thread ---

    def _listen_on(self) -> None:
        try:
            self._serve()
        except BaseException as problem:  # noqa: BLE001  (raised where the person was asked)
            self._problem = problem
            self._prompt.end()

    def _serve(self) -> None:
        signs = Signs(self._line, self._question)
        while not (self._is_done or self._prompt.is_over):
            signs.give()
            for message, _ in self._line.receive(waits_out_breaks=True):
                self._take(message)
            if not self._is_held:
                self._rest()

    def _take(self, message: ToClient) -> None:
        asked = self._question
        if message == InputOver(asked.cell_id, asked.rank, asked.number):
            self._prompt.end()
        elif self._is_held:
            self._held.append(message)
        else:
            self._listen(message)


def name_asker(question: AskPerson) -> str:
    """Return who asks this, for a person."""
    one = "all ranks" if question.is_for_all else f"rank {question.rank}"
    return question.who or one


def answer_to(question: AskPerson, text: str | None = None, problem: str = "") -> AnswerInput:
    """Return the message with this answer, or with the reason why there is none."""
    return AnswerInput(question.cell_id, question.rank, question.number, text, problem)


@contextmanager
def _usual_interrupts() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt: what reads from a person ends by it alone.

    Python looks for signals between two instructions. A Ctrl-C after its last look and before the
    system call that waits for the person is seen when that call ends, so a thread ends it often.
    """
    before: Any = signal.signal(signal.SIGINT, signal.default_int_handler)
    is_over = threading.Event()
    waker = threading.Thread(target=_wake_main_until, args=(is_over,), daemon=True)
    try:
        with _heard_wakes():
            waker.start()
            yield
    finally:
        signal.signal(signal.SIGINT, before)
        is_over.set()


@contextmanager
def _heard_wakes() -> Iterator[None]:
    """Have the waking signal handled: one without a handler ends no system call."""
    if _WAKING_SIGNAL is None or signal.getsignal(_WAKING_SIGNAL) is None:
        yield  # there is none; or C code has set a handler, which could not be put back
        return
    before: Any = signal.signal(_WAKING_SIGNAL, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(_WAKING_SIGNAL, before)


def _wake_main_until(is_over: threading.Event) -> None:
    while not is_over.wait(_WAKE_INTERVAL_S):
        _wake_main()


def _wake_main() -> None:
    if _WAKING_SIGNAL is not None:
        signal.pthread_kill(threading.main_thread().ident or 0, _WAKING_SIGNAL)
