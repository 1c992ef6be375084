"""Everything about one rank that a person opens, part by part, as quickly as each is known."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING

from jupyter_dist.cluster.collectives.shared_calls import (
    CallState,
    SeenRank,
    see_ranks,
    state_of,
    write_call,
)
from jupyter_dist.errors import ClusterGone, DistError
from jupyter_dist.protocol.messages import Output, RankFinished, RankOutput
from jupyter_dist.views.cell.crash_card import crash_lines
from jupyter_dist.views.outputs.ansi import strip_ansi
from jupyter_dist.views.outputs.transcript import Transcript
from jupyter_dist.views.tables.collectives_table import duration_text
from jupyter_dist.views.tables.stacks_table import stacks_text
from jupyter_dist.views.tables.variables_table import names_text

if TYPE_CHECKING:
    from jupyter_dist.cluster.cells.followed_cells import Replay
    from jupyter_dist.cluster.cluster import Cluster
    from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog

PATIENCE_S = 2.8
"""What is not known after this time is said to be so."""
MOST_LINES = 20
MOST_CALLS = 10
MOST_NAMES = 30
_TAIL_CHARACTERS = 64 << 10
"""So much of what a rank has said is read for its last lines."""
_NOT_KNOWN = "not known: "

Read = Callable[["Cluster", int], str]
Parts = dict[str, str]
"""The text of each part that is there, by its title."""


PARTS: Mapping[str, Read] = {
    "stack": lambda cluster, rank: stacks_text(cluster.stacks((rank,))),
    "last lines": lambda cluster, rank: last_lines_text(cluster.replay(), rank),
    "collectives": lambda cluster, rank: collectives_of_rank_text(
        cluster.collectives(MOST_CALLS), rank
    ),
    "variables": lambda cluster, rank: names_text(cluster.who(ranks=(rank,), largest=MOST_NAMES)),
}
"""Title of each part, in the order in which they are shown, and who reads it."""


def gather_rank_report(
    cluster: "Cluster", rank: int, patience_s: float = PATIENCE_S
) -> Iterator[Parts]:
    """Yield what is known of a rank each time that a part has come, and at last all parts.

    A part that cannot be had says why. Raises ClusterGone when that holds for each of them.
    """
    read: SimpleQueue[tuple[str, str | DistError]] = SimpleQueue()
    for title, reader in PARTS.items():
        threading.Thread(
            target=lambda title=title, reader=reader: read.put(
                (title, _try_to_read(reader, cluster, rank))
            ),
            name=f"jupyter-dist-rank-{title.replace(' ', '-')}",
            daemon=True,
        ).start()
    found: dict[str, str | DistError] = {}
    deadline_s = monotonic() + patience_s
    while len(found) < len(PARTS):
        try:
            title, what = read.get(timeout=max(0.0, deadline_s - monotonic()))
        except Empty:
            late = DistError(f"no answer for {patience_s:g} s")
            found |= {title: late for title in PARTS if title not in found}
        else:
            found[title] = what
        if len(found) < len(PARTS):
            yield _write_parts(found)
    gone = [what for what in found.values() if isinstance(what, ClusterGone)]
    if len(gone) == len(PARTS):
        raise gone[0]
    yield _write_parts(found)


def _try_to_read(reader: Read, cluster: "Cluster", rank: int) -> str | DistError:
    try:
        return reader(cluster, rank)
    except DistError as problem:
        return problem


def _write_parts(found: Mapping[str, str | DistError]) -> Parts:
    return {
        title: f"{_NOT_KNOWN}{what}" if isinstance(what, DistError) else what.rstrip()
        for title in PARTS
        if (what := found.get(title)) is not None
    }


# --- last lines ---


def last_lines_text(replay: "Replay", rank: int) -> str:
    """Write the last lines of one rank, below the cell's label and how it ended there."""
    cell = replay.cell
    name = cell.label or "a cell without a number"
    if rank not in cell.ranks:
        return f"{name} does not run on rank {rank}" if cell.is_running else f"{name} ran elsewhere"
    said = [e for e in replay.events if isinstance(e, RankOutput) and rank in e.ranks]
    ends = [e for e in replay.events if isinstance(e, RankFinished) and e.rank == rank]
    transcript = Transcript(count())
    transcript.take(_tail([output for event in said for output in event.outputs]))
    head = f"{name}: {_tell_end(ends)}"
    shown = transcript.last_lines(MOST_LINES)[-MOST_LINES:] or ["(it has said nothing)"]
    return strip_ansi("\n".join([head, *shown, *_tell_crash(ends)]))


def _tail(outputs: Sequence[Output]) -> Sequence[Output]:
    """Return the last outputs, enough for the lines that are shown."""
    characters = 0
    for index in range(len(outputs) - 1, -1, -1):
        characters += len(outputs[index].text)
        if characters > _TAIL_CHARACTERS:
            return outputs[index:]
    return outputs


def _tell_end(ends: Sequence[RankFinished]) -> str:
    if not ends:
        return "running"
    end = ends[-1]
    if end.crash is not None:
        return "this rank was lost in it"  # how, is told below
    how = f"{end.status} after {duration_text(end.duration_s)}"
    return f"{how}: {end.error}" if end.error is not None else how


def _tell_crash(ends: Sequence[RankFinished]) -> list[str]:
    crashes = [end.crash for end in ends if end.crash is not None]
    return ["", *crash_lines(crashes)] if crashes else []


# --- collectives ---


def collectives_of_rank_text(log: "CollectiveLog", rank: int) -> str:
    """Write the last calls of one rank, one on a line and the newest last."""
    seen = see_ranks(log.hosts).get(rank)
    if seen is None:
        records = log.ranks.get(rank)
        problems = [records.problem] if records is not None and records.problem else []
        problems += [f"{host}: {problem}" for host, problem in log.problems.items()]
        return f"{_NOT_KNOWN}{'; '.join(problems) or 'its host has no records of it'}"
    calls = seen.records.calls[-MOST_CALLS:]
    if not calls:
        return f"rank {rank} has called no collective yet"
    return strip_ansi(
        "\n".join(_tell_call(seen, index - len(calls)) for index in range(len(calls)))
    )


def _tell_call(seen: SeenRank, index: int) -> str:
    """Read as `#17 all_reduce(float32[4], sum) at In[3]:7: inside for 12 s`."""
    call = seen.records.calls[index]
    whose = f"{call.framework} " if call.framework else ""
    where = f" at {call.site}" if call.site else ""
    return f"{whose}#{call.sequence} {write_call(call)}{where}: {_tell_state(state_of(call, seen))}"


def _tell_state(state: CallState) -> str:
    time = duration_text(state.seconds)
    match state.kind:
        case "waiting":
            return f"inside for {time}"
        case "lost":
            return "it ended inside"
        case "failed":
            return f"failed after {time}"
        case _:
            return f"took {time}"
