"""A timeline written to a file: never over someone else's, and never half."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog
from jupyter_dist.cluster.collectives.timeline import MADE_BY, Event, Timeline
from jupyter_dist.errors import UsageError
from jupyter_dist.options.start_options import StrPath
from jupyter_dist.text.lists import group_pairs, name_some
from jupyter_dist.text.plurals import count_of

if TYPE_CHECKING:
    from jupyter_dist.cluster.session import Session

_BEGINNING = b'{"otherData":{"made by":' + msgspec.json.encode(MADE_BY)
_VIEWER = "https://ui.perfetto.dev"


class WrittenTimeline(msgspec.Struct, frozen=True):
    """What came of writing a timeline; `str()` of it is a line or two."""

    path: str
    rank_count: int
    cell_count: int
    call_count: int
    forgotten_count: int
    """Older calls that recorders had forgotten."""
    notes: tuple[str, ...] = ()
    """Hosts and ranks that are not in it, each with the reason."""

    def __str__(self) -> str:
        counts = ((self.cell_count, "cell"), (self.call_count, "call"))
        what = " and ".join(count_of(count, noun) for count, noun in counts)
        ranks = count_of(self.rank_count, "rank")
        lines = [f"wrote {what} of {ranks} to {self.path}; {_VIEWER} opens it"]
        if self.forgotten_count:
            calls = count_of(self.forgotten_count, "older call")
            lines.append(f"the recorders of ranks had forgotten {calls}")
        return "\n".join([*lines, *self.notes])


def write_timeline_of(session: "Session", path: StrPath, *, force: bool = False) -> WrittenTimeline:
    """Write the cells and collectives of all ranks as a trace that Perfetto opens.

    Raise UsageError for an existing file that is no trace of jupyter-dist, unless it is forced.
    """
    target = find_target(path, is_forced=force)
    return write_timeline(session.collectives(last=0), session.name, path, target)


def find_target(
    path: StrPath, *, is_forced: bool, beginning: bytes = _BEGINNING, what: str = "a timeline"
) -> Path:
    """Return the file to write; raises UsageError if it must not be written, or cannot be.

    What begins as our own files do may be overwritten; `what` says what those are.
    """
    given = os.fspath(path)
    target = Path(os.path.realpath(os.path.expanduser(given)))
    if not given or os.path.isdir(target):
        raise UsageError(f"{given!r} is a folder. Name a file in it, as trace.json.")
    if not os.path.isdir(target.parent):
        raise UsageError(f"{given}: there is no folder {target.parent}. Make it first.")
    if os.path.exists(target) and not os.path.isfile(target):
        raise UsageError(f"{given} is no ordinary file. Name another one, as trace.json.")
    if os.path.exists(target) and not is_forced and not _begins(target, beginning):
        raise UsageError(
            f"{given} is there already and is not {what} of jupyter-dist. Name another file, "
            "or overwrite it with --force."
        )
    return target


def write_timeline(
    log: CollectiveLog, cluster: str, path: StrPath, target: Path
) -> WrittenTimeline:
    """Write what ranks have done as a Chrome trace; `path` is how a person calls the target.

    Raises UsageError when the file cannot be written.
    """
    timeline = Timeline(cluster, log.hosts, log.problems, log.world_size)
    write_whole(path, target, trace_pieces(timeline))
    return WrittenTimeline(
        os.fspath(path),
        timeline.rank_count,
        timeline.cell_count,
        timeline.call_count,
        timeline.forgotten_count,
        tuple(_notes(log)),
    )


def write_whole(path: StrPath, target: Path, pieces: Iterable[bytes]) -> None:
    """Write a file, or nothing; raise UsageError when it cannot be written."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.writelines(pieces)
        os.replace(part, target)
    except OSError as problem:
        raise UsageError(f"{os.fspath(path)} cannot be written: {problem.strerror}.") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def trace_pieces(timeline: Timeline, more: Iterable[Event] = ()) -> Iterator[bytes]:
    """Yield the text of a trace: what the recorders hold, and more events beside it."""
    encode = msgspec.json.encode
    yield b'{"otherData":' + encode(timeline.metadata())
    yield b',"displayTimeUnit":"ms","traceEvents":['
    separator = b"\n"
    for event in chain(timeline.events(), more):
        yield separator + encode(event)
        separator = b",\n"
    yield b"\n]}\n"


def _begins(target: Path, beginning: bytes) -> bool:
    try:
        with open(target, "rb") as file:
            return file.read(len(beginning)) == beginning
    except OSError:
        return False


def _notes(log: CollectiveLog) -> list[str]:
    notes = [f"not in it: host {host} ({problem})" for host, problem in log.problems.items()]
    unread = group_pairs(
        (each.problem, f"rank {rank}") for rank, each in log.ranks.items() if each.problem
    )
    return notes + [f"not in it: {name_some(who)} ({why})" for why, who in unread.items()]
