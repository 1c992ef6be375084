"""Answers questions about this rank while its main thread runs a cell.

On threads of its own, so that neither the link nor the cell waits for it. Stacks have a thread to
themselves: they are asked for when something is stuck, which may well be another answer.
"""

import queue
import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, assert_never

from jupyter_dist.engine.observation.completion import complete, inspect_name
from jupyter_dist.engine.observation.stacks import read_stacks
from jupyter_dist.engine.observation.variables import describe, list_names
from jupyter_dist.engine.shell.rank_shell import RankShell
from jupyter_dist.model.ranks.user_errors import name_error
from jupyter_dist.model.ranks.variable_facts import NameInfo
from jupyter_dist.protocol.messages import (
    About,
    Answer,
    Answered,
    BeginProfile,
    CompleteCode,
    EndProfile,
    Inspection,
    InspectName,
    ListNames,
    Message,
    NoAnswer,
    Question,
    ReadStacks,
    ShowValue,
)

if TYPE_CHECKING:
    from jupyter_dist.engine.profiling.profiler import Profiler

PATIENCE_S = 1.0
"""A question that comes while an earlier one takes longer is not answered."""
MOST_WAITING = 64
_SUMMARIES = {
    ListNames: "its names",
    CompleteCode: "a completion",
    ReadStacks: "its stacks",
    BeginProfile: "a profile that begins",
    EndProfile: "a profile that ends",
}


class Observer:
    """Tells what the rank is doing and what it has; made on the main thread."""

    def __init__(
        self, shell: RankShell, rank: Callable[[], int], post: Callable[[Message], None]
    ) -> None:
        self._shell = shell
        self._rank = rank
        self._post = post
        self._stacks = _Lane("observer", self._answer)
        self._others = _Lane("observer-names", self._answer)
        self._profiles = _Lane("observer-profiles", self._answer)
        self._profiler: Profiler | None = None
        # The shell's own look-ups add names to builtins and take them away again, also under a
        # cell that begins meanwhile; entered once for all, that never happens.
        shell.builtin_trap.__enter__()

    def ask(self, question: Question) -> None:
        """Answer soon; from the link thread."""
        problem = self._lane_of(question.about).put(question)
        if problem:
            self._tell(question, NoAnswer(problem))

    def _lane_of(self, about: About) -> "_Lane":
        if isinstance(about, ReadStacks):
            return self._stacks
        return self._profiles if isinstance(about, BeginProfile | EndProfile) else self._others

    def _answer(self, question: Question) -> None:
        try:
            answer = self._look(question.about)
        except BaseException as error:  # noqa: BLE001  (objects of users may raise anything)
            answer = NoAnswer(f"it could not be found out: {name_error(error)}")
        self._tell(question, answer)

    def _tell(self, question: Question, answer: Answer) -> None:
        self._post(Answered(self._rank(), question.request_id, answer))

    def _look(self, about: About) -> Answer:
        shell = self._shell
        match about:
            case ReadStacks():
                return read_stacks(shell.name_cell, lambda: shell.current_cell)
            case ListNames():
                hidden = shell.user_ns_hidden
                return list_names(shell.user_ns, hidden, about.patterns, about.with_values)
            case CompleteCode():
                return complete(shell, about.code, about.cursor)
            case InspectName():
                return self._inspect(about)
            case BeginProfile():
                return self._find_profiler().begin(about)
            case EndProfile():
                return self._find_profiler().end(about)
            case ShowValue():
                from jupyter_dist.engine.observation.showing import show_place

                return show_place(shell.user_ns, about.place, about.most_characters)
            case _:
                assert_never(about)

    def _find_profiler(self) -> "Profiler":
        if self._profiler is None:
            from jupyter_dist.engine.profiling.profiler import Profiler

            self._profiler = Profiler(self._shell)
        return self._profiler

    def _inspect(self, about: InspectName) -> Inspection:
        namespace = self._shell.user_ns
        if about.name in namespace:
            info = describe(about.name, namespace[about.name])
            if info.device:  # its value lies elsewhere: to show it is to wait for the device
                return Inspection({"text/plain": _describe_elsewhere(info)})
        return inspect_name(self._shell, about.name, about.detail)


class _Lane:
    """A thread that takes one question after the other; started with the first."""

    def __init__(self, name: str, answer: Callable[[Question], None]) -> None:
        self._name = name
        self._answer = answer
        self._questions: queue.SimpleQueue[Question] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._busy_since_s: float | None = None
        self._current = ""

    def put(self, question: Question) -> str:
        """Take a question in, or say why not."""
        since_s = self._busy_since_s
        if since_s is not None and monotonic() - since_s > PATIENCE_S:
            return f"it still looks for an earlier answer ({self._current}): try again later"
        if self._questions.qsize() >= MOST_WAITING:
            return "it has too many questions to answer: try again later"
        self._questions.put(question)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        return ""

    def _serve(self) -> None:
        while True:
            question = self._questions.get()
            self._current = _summarize(question.about)
            self._busy_since_s = monotonic()
            self._answer(question)
            self._busy_since_s = None


def _summarize(about: About) -> str:
    match about:
        case InspectName():
            return f"{about.name}?"
        case ShowValue():
            return about.place
        case _:
            return _SUMMARIES[type(about)]


def _describe_elsewhere(info: NameInfo) -> str:
    kind = f"Type:   {info.type_name}\nShape:  {info.shape}\n"
    return f"{kind}dtype:  {info.dtype}\nDevice: {info.device}"
