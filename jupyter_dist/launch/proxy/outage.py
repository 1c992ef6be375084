"""What clients are told while the machine of their coordinator is out of reach."""

import contextlib
from pathlib import Path

import msgspec

from jupyter_dist.launch.files.plain_file import read_plain_file, written_whole


class Outage(msgspec.Struct, frozen=True):
    """There is no connection to the machine of a coordinator."""

    since_s: float
    """Time of day."""
    why: str
    """In ssh's words, or ours for them, with the next step."""


def outage_path(log_path: str | Path) -> Path:
    """Return where the process with this log tells it, in its own directory."""
    return Path(log_path).with_name("outage")


def tell_outage(log_path: Path, outage: Outage) -> None:
    """Tell clients."""
    with written_whole(outage_path(log_path), msgspec.json.encode(outage)) as draft:
        draft.replace(outage_path(log_path))


def read_outage(log_path: str) -> Outage | None:
    """Return what clients are told; None while there is a connection."""
    with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(read_plain_file(outage_path(log_path)), type=Outage)
    return None
