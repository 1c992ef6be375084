"""What ranks of a cell ask a person: one question at a time, in the order in which they came."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jupyter_dist.coordinator.agents.message_sender import NOBODY
from jupyter_dist.coordinator.debugging.console import QUIT, DebugConsole
from jupyter_dist.coordinator.state.engine_state import EngineState
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.coordinator.state.sender import Sender
from jupyter_dist.launch.processes.process_life import process_lives
from jupyter_dist.protocol.messages import (
    AnswerInput,
    AskInput,
    AskPerson,
    InputAnswered,
    InputOver,
    InputShown,
)

SILENCE_LIMIT_S = 15.0
"""A client that asks a person reports every second; after this silence it counts as gone."""
REATTACH_S = 60.0
"""So long ranks stay in the debugger when the client that asked is gone, for another one."""
_LONGEST_TICK_S = 1.0
"""After a longer one this process itself was held up, and has not read what clients said."""

_Same = tuple[int, str, bool]
"""How often a rank has asked in this cell, the prompt, and whether it is for a password."""


@dataclass
class _Shown:
    """The question that a person is asked at the moment."""

    question: AskInput
    client: bytes
    heard_s: float | None = None
    """None: since it was shown no time has been taken."""
    pid: int = 0


class InputQueue:
    """The questions of one cell, and the clients that can put them to a person."""

    def __init__(
        self,
        client: bytes,
        roster: Roster,
        sender: Sender,
        is_interrupted: Callable[[int], bool],
        *,
        is_shared: bool = False,
        lives: Callable[[int], bool] = process_lives,
    ) -> None:
        """Nothing is asked for ranks that are interrupted: their questions end with that.

        With `is_shared` one answer is for all ranks that ask the same.
        """
        self._roster, self._sender, self._lives = roster, sender, lives
        self._is_interrupted = is_interrupted
        self._is_shared = is_shared
        self._clients = [] if client == NOBODY else [client]
        """The last one is asked first."""
        self._problem = "the cluster itself runs this cell"
        """Why there is no client that could ask."""
        self._waiting: dict[AskInput, _Same] = {}
        self._shown: _Shown | None = None
        self._counts: Counter[int] = Counter()
        self._given: dict[_Same, str | None] = {}
        self._ticked_s = 0.0
        self._console = DebugConsole()
        self._gone_s: float | None = None
        """Since when there is no client, though ranks are in the debugger; None: not so."""

    def take(self, question: AskInput) -> None:
        """Take in what a rank asks."""
        self._counts[question.rank] += 1
        same = self._counts[question.rank], question.prompt, question.is_password
        if question.place:
            self._console.come(question.rank, is_first=not self._places)
        if same in self._given and not question.place:
            self._tell(question, self._given[same])
        elif not self._clients and (self._gone_s is None or not question.place):
            self.refuse(question, self._problem)
        else:
            self._waiting[question] = same
            self._go_on()

    def refuse(self, question: AskInput, problem: str) -> None:
        """Tell a rank why it gets no answer."""
        answer = InputAnswered(question.number, problem=problem)
        self._sender.to_engine(question.rank, answer)

    def withdraw(self, rank: int, number: int) -> None:
        """Take in that a rank waits for this answer no longer."""
        self._forget(each for each in self._waiting if (each.rank, each.number) == (rank, number))

    def end(self, rank: int) -> None:
        """Take in that the cell is over on a rank: a thread of it may still wait."""
        self._console.leave(rank)
        for question in self._forget(each for each in self._waiting if each.rank == rank):
            self.refuse(question, "its cell has ended")

    def join(self, client: bytes) -> None:
        """Take in that this client can ask a person, rather than those before it."""
        self._clients.append(client)
        self._gone_s = None
        self._take_down()
        self._go_on()

    def on_shown(self, client: bytes, message: InputShown, now_s: float) -> None:
        """Take in that a client asks a person."""
        if (shown := self._find_shown(client, message)) is not None:
            shown.heard_s, shown.pid = now_s, message.pid

    def on_answer(self, client: bytes, message: AnswerInput) -> None:
        """Take in what a person has said, or that this client cannot ask one."""
        if (shown := self._find_shown(client, message)) is None:
            return
        if message.problem:
            self._lose(shown, message.problem)
            return
        self._shown = None
        if shown.question.place:
            self._command(QUIT if message.text is None else message.text)
            return
        same, known = self._waiting[shown.question], [shown.question]
        if self._is_shared:
            self._given[same] = message.text
            known = [each for each, other in self._waiting.items() if other == same]
        for question in self._forget(known):
            self._tell(question, message.text)

    def tick(self, now_s: float) -> None:
        """Look whether the client that asks is still there."""
        is_late, self._ticked_s = now_s - self._ticked_s > _LONGEST_TICK_S, now_s
        self._console.look()
        if self._gone_s is not None and now_s - self._gone_s > REATTACH_S:
            self._gone_s = None
            self._refuse_all()
        if (shown := self._shown) is None:
            self._go_on()
            return
        if shown.heard_s is None or is_late:
            shown.heard_s = now_s
        is_gone = shown.pid and not self._lives(shown.pid)
        if is_gone or now_s - shown.heard_s > SILENCE_LIMIT_S:
            self._gone_s = now_s
            self._lose(shown, "the notebook or terminal that could answer is not there any more")

    # --- what is asked now ---

    def _go_on(self) -> None:
        """Have the first question asked, if none is, and say of each rank that it waits."""
        awaited = (each for each in self._waiting if not self._is_interrupted(each.rank))
        askable = (each for each in awaited if not each.place or self._is_console_ready)
        if self._shown is None and self._clients and (first := next(askable, None)) is not None:
            client = self._clients[-1]
            self._shown = _Shown(first, client)
            ask = AskPerson(
                first.cell_id,
                first.rank,
                first.number,
                first.prompt,
                first.is_password,
                self._is_shared and not first.place,
                self._console.who(self._places) if first.place else "",
            )
            self._sender.to_client(client, ask)
        asked = self._shown.question if self._shown is not None else None
        for question in self._waiting:
            wait = "waits for input" if question == asked else "waits to ask for input"
            self._roster[question.rank].asks = wait

    @property
    def _places(self) -> dict[int, str]:
        """Where ranks are stopped in the debugger, and wait for a command."""
        return {each.rank: each.place for each in self._waiting if each.place}

    @property
    def _is_console_ready(self) -> bool:
        return self._console.is_ready(self._places, self._roster.ranks_in(EngineState.BUSY))

    def _command(self, text: str) -> None:
        """Hand what was typed at the prompt of the debugger to the ranks that it is for."""
        order = self._console.read(text, self._places)
        meant = [each for each in self._waiting if each.place and each.rank in order.ranks]
        for question in self._forget(meant):
            self._tell(question, order.command)

    def _forget(self, questions: Iterable[AskInput]) -> list[AskInput]:
        gone = list(questions)
        for question in gone:
            del self._waiting[question]
            self._roster[question.rank].asks = ""
        if self._shown is not None and self._shown.question in gone:
            self._take_down()
        self._go_on()
        return gone

    def _take_down(self) -> None:
        if self._shown is not None:
            question = self._shown.question
            over = InputOver(question.cell_id, question.rank, question.number)
            self._sender.to_client(self._shown.client, over)
            self._shown = None

    def _lose(self, shown: _Shown, problem: str) -> None:
        """Ask no more by this client; where there is no other, refuse what ranks ask."""
        self._clients.remove(shown.client)
        self._take_down()
        if self._clients:
            self._go_on()
            return
        self._problem = problem
        self._refuse_all()

    def _refuse_all(self) -> None:
        """Refuse what ranks ask; as long as another client may come, those in the debugger wait."""
        is_held = self._gone_s is not None
        refused = [each for each in self._waiting if not (is_held and each.place)]
        for question in self._forget(refused):
            self.refuse(question, self._problem)

    def _find_shown(self, client: bytes, message: InputShown | AnswerInput) -> _Shown | None:
        """Return the question that is asked, if it is this one, by this client."""
        shown = self._shown
        if shown is None or shown.client != client:
            return None
        asked = shown.question.rank, shown.question.number
        return shown if asked == (message.rank, message.number) else None

    def _tell(self, question: AskInput, text: str | None) -> None:
        self._sender.to_engine(question.rank, InputAnswered(question.number, text))
