"""What messages are made of: their base, and the parts that several of them share."""

from typing import Any

import msgspec

from jupyter_dist.model.ranks.crashes.crash import CrashReport


class Message(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    """Base of every message; the class name is the name on the wire."""


class Request(Message, frozen=True):
    """Base of what is asked for; what answers it bears the same id."""

    request_id: str


class Reply(Message, frozen=True):
    """Base of what a request is answered with, be it in several messages."""

    request_id: str


class Report(Message, frozen=True):
    """Base of what a rank says."""

    rank: int


class Command(msgspec.Struct, frozen=True):
    """What ranks do in place of running a cell's code; see `protocol/commands.py`."""

    name: str
    title: str
    """What people see where a cell's code is shown."""
    payload: bytes
    """The request, as MessagePack."""


class Stops(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where ranks stop in a cell that does not call `breakpoint()` itself."""

    line: int = 0
    """Before the statement on this line; 0: before none, or with a condition before each."""
    condition: str = ""
    """Where this expression is true."""
    ranks: tuple[int, ...] | None = None
    """These of its ranks; None: all."""
    on_error: bool = False
    """Where it raises, before the cell ends with that."""
    on_mismatch: bool = False
    """Where ranks have called different collectives."""


class ErrorInfo(msgspec.Struct, frozen=True):
    """An exception as it crosses processes; reads as `ZeroDivisionError: division by zero`."""

    ename: str
    evalue: str
    traceback: tuple[str, ...] = ()
    peer_rank: int = -1
    """The rank that failed, where this is a PeerFailed, or comes from one."""
    peer_reason: str = ""
    """What that rank did."""

    def __str__(self) -> str:
        return f"{self.ename}: {self.evalue}" if self.evalue else self.ename


WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
"""MIME type of a widget in what is displayed: `{"model_id": …}`."""
OMITTED_LINES = "omitted_lines"
"""What a note's data has where lines of its rank are left out: how many."""


class Output(msgspec.Struct, frozen=True):
    """One piece of output of a rank."""

    kind: str
    """stdout, stderr, display, update_display, clear_output, value, note or progress."""
    text: str = ""
    """For streams and notes."""
    data: dict[str, Any] = {}
    """MIME bundle of display, update_display and value; what a bar shows, of progress; of a note
    that stands for lines OMITTED_LINES."""
    metadata: dict[str, Any] = {}
    display_id: str = ""
    is_block: bool = False
    """Whole lines of a stream that were written at once, as a table is: they belong together."""


class RankOutput(msgspec.Struct, frozen=True, tag=True):
    """What each of these ranks said, in its own order."""

    ranks: tuple[int, ...]
    outputs: tuple[Output, ...]


class RankFinished(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """One rank is done: ok, raised, interrupted, peer_failed, timed_out, unresponsive or lost.

    An unresponsive rank has not answered the interrupt, and is still busy.
    """

    rank: int
    status: str
    duration_s: float
    value_repr: str | None = None
    error: ErrorInfo | None = None
    crash: CrashReport | None = None
    """Of a lost rank, what is known about its end."""
    report: bytes = b""
    """What a command has returned, as MessagePack."""


class RanksOk(msgspec.Struct, frozen=True, tag=True):
    """These ranks are done: all ok, with nothing to tell but how long it took each of them."""

    ranks: tuple[int, ...]
    durations_s: tuple[float, ...]

    def one_by_one(self) -> list[RankFinished]:
        """Return how the cell ended on each of them."""
        pairs = zip(self.ranks, self.durations_s, strict=True)
        return [RankFinished(rank, "ok", duration_s) for rank, duration_s in pairs]


class CellNote(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A sentence about the running cell: who waits for whom, who does not respond to ■."""

    text: str
    is_passing: bool = False
    """It holds while the cell runs; with an empty text, what was said so holds no longer."""
    omits_output: bool = False
    """What ranks have said before it is missing."""


CellEvent = RankOutput | RankFinished | RanksOk | CellNote


class KeptCell(msgspec.Struct, frozen=True):
    """A cell whose outputs are kept."""

    cell_id: str
    label: str
    """As `In[3]`."""
    code: str
    ranks: tuple[int, ...]
    started_s: float
    """Time of day, in seconds since 1970."""
    is_running: bool
    kept_bytes: int = 0
    by: str = ""
    """The AI agent that has sent it; empty: none has."""


class KernelRole(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a notebook's kernel has to do with a cluster."""

    kernel: str
    """Jupyter Server's id of it, which outlives a restart of the kernel."""
    role: str
    """own, observe, or owned: its process has ended, and no other one has taken its place."""
    since_s: float = 0.0
    """Time of day."""
    is_auto: bool = False
    """Its cells run on every rank without saying so."""


class Grant(msgspec.Struct, frozen=True):
    """What a person lets AI agents do with one cluster."""

    number: int
    may: tuple[str, ...]
    until_s: float
    """Time of day."""
    acts: int = 0
    """How often it was used."""
    last: str = ""
    """What was done by it last, and by whom."""


ACTS = ("run", "interrupt", "heal", "checkpoint")
"""What a grant can be for."""


class ServiceFound(msgspec.Struct, frozen=True):
    """Where a helper process listens, or why it does not."""

    address: str
    problem: str = ""


def service_key(service: str, at_rank: int, bind: str) -> str:
    """Name the value that tells where a helper process listens."""
    return f"service {service} at {at_rank} {bind}".rstrip()
