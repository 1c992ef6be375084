"""What the kernel of a notebook tells the command that runs it: how cells go on ranks.

It goes over a comm of the kernel, beside what the notebook shows and saves.
"""

import msgspec

from jupyter_dist.options.output_options import OutputStyle
from jupyter_dist.protocol.messages import RankFinished, RankOutput

TARGET = "jupyter_dist.job"
"""Of the comm."""
EVENT = "event"
"""The field of a comm's data that has one."""


class SpmdBegan(msgspec.Struct, frozen=True, tag=True):
    """A cell begins on these ranks."""

    cluster: str
    ranks: tuple[int, ...]
    shown: tuple[int, ...] | None
    """Ranks whose outputs are shown; None: all."""
    style: OutputStyle
    is_background: bool = False
    """It runs beside other cells; its events come on a comm of its own."""


class NoteTold(msgspec.Struct, frozen=True, tag=True):
    """A sentence for the person."""

    text: str
    is_passing: bool
    """It holds only while the cell runs."""


class SpmdEnded(msgspec.Struct, frozen=True, tag=True):
    """The cell has ended on all its ranks, or was given up."""

    exit_status: int
    problem: str
    """What went wrong; empty: nothing."""
    is_lost: bool = False
    """A rank was lost."""


JobEvent = SpmdBegan | RankOutput | RankFinished | NoteTold | SpmdEnded
_decoder = msgspec.json.Decoder(JobEvent)


def write_event(event: JobEvent) -> str:
    """Return an event as JSON; what JSON does not have is its text."""
    return msgspec.json.encode(event, enc_hook=str).decode()


def read_event(text: str) -> JobEvent:
    """Return an event that `write_event` has written. Raise msgspec.ValidationError for others."""
    event: JobEvent = _decoder.decode(text)
    return event
