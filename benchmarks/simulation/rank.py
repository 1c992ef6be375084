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
        self.size = 0
        """Ranks that live."""
        self._held = 0
        self._waiting: list[Callable[[], None]] = []

    def on_held(self, change: int) -> None:
        """Take in that a rank is held in a cell, or is not any more."""
        self._held += change
        self._tell()

    def when_all_are_held(self, call: Callable[[], None]) -> None:
        """Call back as soon as every rank is held in a cell."""
        self._waiting.append(call)
        self._tell()

    def _tell(self) -> None:
        if self._held == self.size:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()


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
        self._rank = place.rank
        self._crowd, self._on_left = crowd, on_left
        self._held: RunCell | None = None
        self._loop = asyncio.get_running_loop()
        self._line = open_line(self._obey)
        crowd.size += 1

    def mend(self) -> None:
        """Send again what was lost with a connection that broke; to be called about each second."""
        self._line.mend()

    def say_hello(self, generation: int) -> None:
        """Say where peers would reach this rank."""
        address = f"10.{self._rank >> 16}.{self._rank >> 8 & 255}.{self._rank & 255}:40000"
        self._say(Hello(self._rank, generation, self.pid, address))

    def interrupt(self) -> None:
        """End what is held, as SIGINT does."""
        self._release("interrupted", ErrorInfo("KeyboardInterrupt", ""))

    def end(self) -> None:
        """End without a word, as a process that is killed."""
        self._line.close()
        if self._held is not None:
            self._held = None
            self._crowd.on_held(-1)
        self._crowd.size -= 1

    def _obey(self, message: ToEngine) -> None:
        match message:
            case Welcome():
                self._rank = message.info.rank
                self._say(Ready(self._rank, message.generation))
            case Regroup():
                self._rank = message.rank
                self.say_hello(message.generation)
            case RunCell():
                self._run(message)
            case AbortCommunicator():
                failed, reason = message.failed_rank, message.reason
                text = f"rank {failed} {reason}"
                error = ErrorInfo("PeerFailed", text, peer_rank=failed, peer_reason=reason)
                self._release("peer_failed", error)
            case StoreObjects():
                self._say(ObjectsStored(self._rank, message.request_id))
            case FetchObject():
                self._say(ObjectFetched(self._rank, message.request_id, "it is simulated"))
            case Question():
                is_names = isinstance(message.about, ListNames)
                answer = RankNames(()) if is_names else NoAnswer("it is simulated")
                self._say(Answered(self._rank, message.request_id, answer))
            case Leave():
                self.end()
                self._on_left(self)
            case _:
                pass  # meetings, values, controllers and notices: no cell here asks for them

    def _run(self, cell: RunCell) -> None:
        if cell.code == HELD:
            self._held = cell
            self._crowd.on_held(1)
        elif self._crowd.late_s:
            self._loop.call_later(self._crowd.late_s, self._finish, cell)
        else:
            self._finish(cell)

    def _finish(self, cell: RunCell, status: str = "ok", error: ErrorInfo | None = None) -> None:
        text = f"rank {self._rank}\n" if cell.code == LINE else ""
        outputs = (Output("stdout", text=text),) if text else ()
        self._say(CellResult(self._rank, cell.cell_id, status, 0.0, None, error, outputs))

    def _release(self, status: str, error: ErrorInfo) -> None:
        if self._held is not None:
            cell, self._held = self._held, None
            self._crowd.on_held(-1)
            self._finish(cell, status, error)

    def _say(self, message: Message) -> None:
        self._line.send(message)
