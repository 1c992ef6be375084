"""A timeline written to a file: never over someone else's, and never half."""

import contextlib
import os
from pathlib import Path

import msgspec

from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog
from jupyter_dist.cluster.collectives.timeline import MADE_BY, Timeline
from jupyter_dist.errors import UsageError
from jupyter_dist.options.start_options import StrPath
from jupyter_dist.text.lists import group_pairs, name_some
from jupyter_dist.text.plurals import count_of

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


def find_target(path: StrPath, *, is_forced: bool) -> Path:
    """Return the file to write; raises UsageError if it must not be written, or cannot be."""
    given = os.fspath(path)
    target = Path(os.path.realpath(os.path.expanduser(given)))
    if not given or os.path.isdir(target):
        raise UsageError(f"{given!r} is a folder. Name a file in it, as trace.json.")
    if not os.path.isdir(target.parent):
        raise UsageError(f"{given}: there is no folder {target.parent}. Make it first.")
    if os.path.exists(target) and not os.path.isfile(target):
        raise UsageError(f"{given} is no ordinary file. Name another one, as trace.json.")
    if os.path.exists(target) and not is_forced and not _is_ours(target):
        raise UsageError(
            f"{given} is there already and is not a timeline of jupyter-dist. Name another file, "
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
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        _write(timeline, part)
        os.replace(part, target)
    except OSError as problem:
        raise UsageError(f"{os.fspath(path)} cannot be written: {problem.strerror}.") from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
    return WrittenTimeline(
        os.fspath(path),
        timeline.rank_count,
        timeline.cell_count,
        timeline.call_count,
        timeline.forgotten_count,
        tuple(_notes(log)),
    )


def _is_ours(target: Path) -> bool:
    try:
        with open(target, "rb") as file:
            beginning = file.read(len(_BEGINNING))
    except OSError:
        return False
    return beginning == _BEGINNING


def _write(timeline: Timeline, part: Path) -> None:
    encode = msgspec.json.encode
    with open(part, "wb") as file:
        file.write(b'{"otherData":' + encode(timeline.metadata()))
        file.write(b',"displayTimeUnit":"ms","traceEvents":[')
        separator = b"\n"
        for event in timeline.events():
            file.write(separator + encode(event))
            separator = b",\n"
        file.write(b"\n]}\n")


def _notes(log: CollectiveLog) -> list[str]:
    notes = [f"not in it: host {host} ({problem})" for host, problem in log.problems.items()]
    unread = group_pairs(
        (each.problem, f"rank {rank}") for rank, each in log.ranks.items() if each.problem
    )
    return notes + [f"not in it: {name_some(who)} ({why})" for why, who in unread.items()]
