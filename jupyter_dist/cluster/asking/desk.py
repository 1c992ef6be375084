"""What ranks of a cell in the background ask: it is kept until the program waits for the cell."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from jupyter_dist.cluster.asking.front_end import find_absence
from jupyter_dist.cluster.asking.person import Prompt, Signs, answer_to, name_asker
from jupyter_dist.cluster.connection.connection import Connection
from jupyter_dist.protocol.messages import AnswerInput, AskPerson
from jupyter_dist.text.lists import Passing


class Desk:
    """Between the thread of a cell, which hears questions, and the main thread, which asks them."""

    def __init__(self, line: Connection, note: Callable[[str], None]) -> None:
        self._line, self._note = line, note
        self._changed = threading.Condition()
        self._question: AskPerson | None = None
        self._signs: Signs
        self._prompt: Prompt | None = None
        """Has the question until it is answered."""
        self._answer: AnswerInput | None = None
        """It is sent by the thread of the cell, which has the line."""
        self._is_awaited = False
        """The program waits, and asks at once."""

    # --- on the thread of the cell ---

    def has(self, question: AskPerson) -> bool:
        """Return whether this is the question that is open."""
        return question == self._question

    def look(self, question: AskPerson | None) -> bool:
        """Take in which question is open (None: none); return whether it is answered now."""
        if question != self._question:
            self._take(question)
        if question is None:
            return False
        if self._answer is None:
            self._signs.give()
            return False
        self._line.send(self._answer)
        return True

    def _take(self, question: AskPerson | None) -> None:
        absence = find_absence() if question is not None else ""
        with self._changed:
            before, self._prompt, self._answer = self._prompt, None, None
            self._question = question
            if question is not None and absence:
                self._answer = answer_to(question, problem=absence)
            elif question is not None:
                self._prompt, self._signs = Prompt(question), Signs(self._line, question)
            self._changed.notify_all()
        if before is not None:
            before.end()
        is_unseen = not absence and not self._is_awaited
        self._note(Passing(_tell(question) if question is not None and is_unseen else ""))

    def add_hint(self, note: str) -> str:
        """Return what a person is told of the cell, with what there is to do while one is asked."""
        if self._prompt is None or not note or not isinstance(note, Passing):
            return note
        where = "wait() of its BackgroundCell asks you"
        if self._question is not None and self._question.who:
            where = "wait() of its BackgroundCell, or %dist_debug, shows the prompt"
        return type(note)(f"{note}; {where}")

    # --- where the program waits ---

    def wait(self, ended: "Future[Any]", timeout_s: float | None) -> None:
        """Wait for the end of the cell, and ask on the main thread what ranks ask.

        With a limit it only waits: a question cannot be taken back from a person at its end.
        Raise the TimeoutError of futures after it, and KeyboardInterrupt for Ctrl-C; a question
        that is open then waits for the next call.
        """
        if timeout_s is not None or threading.current_thread() is not threading.main_thread():
            ended.exception(timeout_s)
            return
        ended.add_done_callback(lambda _: self._wake())
        self._is_awaited = True
        try:
            self._ask_until(ended)
        finally:
            self._is_awaited = False

    def _ask_until(self, ended: "Future[Any]") -> None:
        while not ended.done():
            with self._changed:
                self._changed.wait_for(lambda: ended.done() or self._prompt is not None)
                prompt = self._prompt
            if prompt is not None:
                answer = prompt.ask()
                with self._changed:
                    if prompt is self._prompt:
                        self._prompt, self._answer = None, answer

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _tell(question: AskPerson) -> str:
    if question.who:  # at the prompt of the debugger
        return f"in the debugger: {question.who}"
    return f"{name_asker(question)} waits for input"
