"""Commands: what the cluster has ranks do in place of running a cell's code.

A command goes where a cell goes, so that it is scheduled, interrupted, watched and kept like one.
Each kind names its request and its report once; the cluster sends the one and reads the other, and
the engine's registry (`engine/commands.py`) carries it out.
"""

from typing import Generic, NamedTuple, TypeVar

import msgspec

from jupyter_dist.model.bench.bench_plan import BenchPlan
from jupyter_dist.model.bench.measurements import RankBench
from jupyter_dist.protocol.messages import Command

Request = TypeVar("Request")
Report = TypeVar("Report")


class CommandKind(NamedTuple, Generic[Request, Report]):
    """The name of a command on the wire, and the types of its request and of its report."""

    name: str
    request: type[Request]
    report: type[Report]

    def order(self, request: Request, title: str) -> Command:
        """Return the message that asks for it; `title` is what people see in place of code."""
        return Command(self.name, title, msgspec.msgpack.encode(request))

    def read_request(self, command: Command) -> Request:
        """Return the request, on a rank."""
        return msgspec.msgpack.decode(command.payload, type=self.request)

    def write_report(self, report: Report) -> bytes:
        """Return the report as it goes into a rank's result."""
        return msgspec.msgpack.encode(report)

    def read_report(self, payload: bytes) -> Report:
        """Return the report of a rank. Raise msgspec.DecodeError where there is none."""
        return msgspec.msgpack.decode(payload, type=self.report)


class PreemptionRequest(msgspec.Struct, frozen=True):
    """A notice, with all that a rank needs which came after it."""

    number: int
    text: str
    left_s: float
    saves_marked: bool


class ProgramRequest(msgspec.Struct, frozen=True):
    """A program that ranks run as `python PATH ARGUMENTS` or `python -m PATH ARGUMENTS` would."""

    path: str
    """Of the file on the machine that has sent it; of a module its name."""
    arguments: tuple[str, ...] = ()
    source: str = ""
    """What the file holds; hosts need not have it. Empty for a module, which they import."""
    is_module: bool = False
    restored: tuple[str, ...] = ()
    """Variables of the rank that the program finds among its own."""


class RankMesh(msgspec.Struct, frozen=True):
    """A mesh of JAX or torch, as a rank has it."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]
    """The rank at each place, the last axis fastest."""


BENCH = CommandKind("bench", BenchPlan, RankBench)
MESH = CommandKind("mesh", str, RankMesh)
"""Tell of the mesh that a variable is."""
PREEMPTION = CommandKind("preemption", PreemptionRequest, type(None))
"""Do what a notice asks for, before any other cell begins."""
PROGRAM = CommandKind("program", ProgramRequest, str)
"""Run a program; tell of the call by which it has ended itself well, or nothing."""
RELOAD = CommandKind("reload", type(None), type(None))
"""Load synced modules again that have changed."""
