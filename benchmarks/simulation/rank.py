"""A rank without a process: it says what a rank says.

No code is run: see cells.py for what becomes of a cell.
"""

import asyncio
import threading
from collections.abc import Callable

from simulation.cells import HELD, LINE
from simulation.lines import DialledLine, Obey, RelayedLine

from jupyter_dist.model.ranks.variable_facts import RankNames
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    Answered,
    CellResult,
    ErrorInfo,
    FetchObject,
    Hello,
    Leave,
    ListNames,
    Message,
    NoAnswer,
    ObjectFetched,
    ObjectsStored,
    Output,
    Question,
    Ready,
    Regroup,
    RunCell,
    StoreObjects,
    ToEngine,
    Welcome,
)

AT_ONCE = 2
"""So many hosts of a process join at once, and so many of their relays connect: what that takes on
a host, real hosts do with cores of their own.
"""
PID_OFFSET = 1 << 24
"""Above the highest process id of Linux: whatever is done with such a number reaches no process."""


class Crowd:
    """All ranks of this process, as far as the benchmark asks of them."""

    def __init__(self) -> None:
        self.late_s = 0.0
        """So much later than at once ranks end a cell."""
        self.joining, self.connecting = threading.Semaphore(AT_ONCE), asyncio.Semaphore(AT_ONCE)
        """Held by hosts that join, and by those whose relays connect."""
        self.all_held = asyncio.Event()
        """Every rank that lives is in a cell that lasts until something ends it."""
        self._living = self._held = 0

    def take_in(self, *, living: int = 0, held: int = 0) -> None:
        """Take in that there are so many ranks more, and so many more that are held."""
        self._living += living
        self._held += held
        if self._held == self._living:
            self.all_held.set()
        else:
            self.all_held.clear()


class SimulatedRank:
    """One rank; used on the thread of the loop only."""

    def __init__(
        self,
        place: pb.RankPlace,
        open_line: Callable[[Obey], DialledLine | RelayedLine],
        crowd: Crowd,
        on_left: Callable[["SimulatedRank"], None],
    ) -> None:
        """Call `on_left` with the rank once it has left as it was told to."""
        self.engine = place.engine
        """Name of its engine."""
        self.pid = PID_OFFSET + place.rank
        self.number = place.rank
        """Its rank, which may become another one with a new generation."""
        self._crowd, self._on_left = crowd, on_left
        self._held: RunCell | None = None
        self._loop = asyncio.get_running_loop()
        self._line = open_line(self._obey)
        crowd.take_in(living=1)

    @property
    def is_held(self) -> bool:
        """It is in a cell that lasts until something ends it."""
        return self._held is not None

    def mend(self) -> None:
        """Send again what was lost with a connection that broke; to be called about each second."""
        self._line.mend()

    def say_hello(self, generation: int) -> None:
        """Say where peers would reach this rank."""
        address = f"10.{self.number >> 16}.{self.number >> 8 & 255}.{self.number & 255}:40000"
        self._say(Hello(self.number, generation, self.pid, address))

    def interrupt(self) -> None:
        """End what is held, as SIGINT does."""
        self._release("interrupted", ErrorInfo("KeyboardInterrupt", ""))

    def end(self) -> None:
        """End without a word, as a process that is killed."""
        self._line.close()
        self._crowd.take_in(living=-1, held=-int(self.is_held))
        self._held = None

    def _obey(self, message: ToEngine) -> None:
        match message:
            case Welcome():
                self.number = message.info.rank
                self._say(Ready(self.number, message.generation))
            case Regroup():
                self.number = message.rank
                self.say_hello(message.generation)
            case RunCell():
                self._run(message)
            case AbortCommunicator():
                failed, reason = message.failed_rank, message.reason
                text = f"rank {failed} {reason}"
                error = ErrorInfo("PeerFailed", text, peer_rank=failed, peer_reason=reason)
                self._release("peer_failed", error)
            case StoreObjects():
                self._say(ObjectsStored(self.number, message.request_id))
            case FetchObject():
                self._say(ObjectFetched(self.number, message.request_id, "it is simulated"))
            case Question():
                is_names = isinstance(message.about, ListNames)
                answer = RankNames(()) if is_names else NoAnswer("it is simulated")
                self._say(Answered(self.number, message.request_id, answer))
            case Leave():
                self.end()
                self._on_left(self)
            case _:
                pass  # meetings, values, controllers and notices: no cell here asks for them

    def _run(self, cell: RunCell) -> None:
        if cell.code == HELD:
            self._held = cell
            self._crowd.take_in(held=1)
        elif self._crowd.late_s:
            self._loop.call_later(self._crowd.late_s, self._finish, cell)
        else:
            self._finish(cell)

    def _finish(self, cell: RunCell, status: str = "ok", error: ErrorInfo | None = None) -> None:
        text = f"rank {self.number}\n" if cell.code == LINE else ""
        outputs = (Output("stdout", text=text),) if text else ()
        self._say(CellResult(self.number, cell.cell_id, status, 0.0, None, error, outputs))

    def _release(self, status: str, error: ErrorInfo) -> None:
        if self._held is not None:
            cell, self._held = self._held, None
            self._crowd.take_in(held=-1)
            self._finish(cell, status, error)

    def _say(self, message: Message) -> None:
        self._line.send(message)
