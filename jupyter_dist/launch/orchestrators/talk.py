"""What the process of an orchestrator's client and the coordinator say to each other, in lines.

The order comes first on its stdin, whose end means: give everything back, and end.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.model.spec.batch import JobSeen


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the job stands, each time that has changed."""

    seen: JobSeen
    problem: str = ""
    """Why its agents do not come, in whole sentences."""
    left: str = ""
    """What could not be given back, and how that is done by hand."""


Say = Callable[[Report], None]


def write_order(order: BatchOrder) -> bytes:
    """Return a line that holds it; no secret is part of it."""
    return msgspec.json.encode(order, enc_hook=str) + b"\n"


def read_order(line: bytes) -> BatchOrder:
    """Read such a line."""
    return msgspec.json.decode(line, type=BatchOrder, dec_hook=_read_path)


def _read_path(kind: type[Any], value: Any) -> Any:
    assert kind is Path
    return Path(value)
