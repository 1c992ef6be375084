"""What would ask a person on a rank, as `input()`: asked where the cell was sent from."""

import builtins
import getpass
import io
import os
import sys
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue
from typing import Any

from IPython.core.error import StdinNotImplementedError

from jupyter_dist.protocol.messages import AskInput, InputAnswered, Message, WithdrawInput
from jupyter_dist.protocol.plain_values import plain_text

_MOST_CHARACTERS = 10_000
"""Of a prompt: a person reads it."""
_INSTEAD = "Ask in the notebook and hand the answer over with %dist_push."


class RankInput:
    """Asks what `input()`, `getpass()` and `sys.stdin.readline()` ask; any thread of a cell may."""

    def __init__(
        self,
        get_rank: Callable[[], int],
        get_cell: Callable[[], str],
        take_output: Callable[[], Message | None],
        post: Callable[[Message], None],
    ) -> None:
        """`get_cell` returns the id of the running cell, or an empty string."""
        self._get_rank, self._get_cell = get_rank, get_cell
        self._take_output, self._post = take_output, post
        self._pid = os.getpid()
        self._numbers = count(1)
        self._awaited: dict[int, SimpleQueue[InputAnswered]] = {}

    def install(self) -> None:
        """Make it what Python asks with."""
        builtins.input = self._input
        getpass.getpass = self._getpass
        sys.stdin = _AskedLines(self)

    def on_answer(self, answer: InputAnswered) -> None:
        """Hand over what a person has said; none is waited for if it comes too late."""
        if (answers := self._awaited.get(answer.number)) is not None:
            answers.put(answer)

    @property
    def cell_id(self) -> str:
        """The running cell, or an empty string."""
        return self._get_cell()

    def ask(
        self, call: str, prompt: str, *, is_password: bool = False, place: str = ""
    ) -> str | None:
        """Return what a person has typed; None at the end of input, as by Ctrl-D.

        With a `place` it is the prompt of a debugger that is stopped there.
        Raises StdinNotImplementedError, as notebooks do, where none can be asked.
        """
        cell_id, number = self._get_cell(), next(self._numbers)
        if os.getpid() != self._pid:
            raise _cannot_ask(call, "this process is a copy of the rank by fork")
        if not cell_id:
            raise _cannot_ask(call, "only a cell that runs can ask")
        if (said := self._take_output()) is not None:
            self._post(said)  # it stands above the question
        answers = self._awaited[number] = SimpleQueue()
        try:
            prompt = plain_text(prompt[:_MOST_CHARACTERS])
            self._post(AskInput(self._get_rank(), cell_id, number, prompt, is_password, place))
            answer = answers.get()  # a signal ends it
        except BaseException:
            self._post(WithdrawInput(self._get_rank(), cell_id, number))
            raise
        finally:
            del self._awaited[number]
        if answer.problem:
            raise _cannot_ask(call, answer.problem)
        return answer.text

    # --- in place of Python's own ---

    def _input(self, prompt: object = "", /) -> str:
        text = str(prompt)
        return _line_of(self.ask(f"input({text!r})", text))

    def _getpass(self, prompt: str = "Password: ", stream: object = None, **options: Any) -> str:
        del stream, options  # they are about terminals
        return _line_of(self.ask(f"getpass({prompt!r})", str(prompt), is_password=True))


class _AskedLines(io.TextIOWrapper):
    """Standard input of a rank: `readline` asks for a line, and there is nothing else in it."""

    def __init__(self, ask: RankInput) -> None:
        super().__init__(open(os.devnull, "rb"))  # noqa: SIM115  (as long as the rank lives)
        self._ask = ask

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """Ask for a line; an empty string is the end of input. Raises as `RankInput.ask`."""
        del size
        line = self._ask.ask("sys.stdin.readline()", "")
        return "" if line is None else f"{line}\n"

    def __next__(self) -> str:  # type: ignore[override]
        """Find nothing: to ask until a person ends that is not what `for line in stdin` is for."""
        raise StopIteration


def _line_of(answer: str | None) -> str:
    if answer is None:
        raise EOFError("the person who was asked has ended the input")
    return answer


def _cannot_ask(call: str, why: str) -> StdinNotImplementedError:
    return StdinNotImplementedError(f"{call} cannot ask a person: {why}. {_INSTEAD}")
