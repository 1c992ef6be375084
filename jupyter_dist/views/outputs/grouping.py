"""Which ranks said the same: pure functions over what each rank printed, showed and raised."""

import heapq
import itertools
import re
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from jupyter_dist.model.hosts.rank import format_ranks, name_ranks
from jupyter_dist.protocol.messages import ErrorInfo, RankFinished
from jupyter_dist.text.lists import group_pairs
from jupyter_dist.views.outputs.ansi import strip_ansi
from jupyter_dist.views.outputs.rich_outputs import RichOutput
from jupyter_dist.views.outputs.shared_states import Ranks, SharedStates

DECIDE_AFTER_S = 0.15
"""How long a line waits for other ranks to print it too before it is shown in a terminal."""
_PENDING_CAP = 4000
_LABEL_CAP = 16
_CLIPPED_LINES = 40
_FRAME_CAP = 500
_FRAME = re.compile(r"((?:Cell )?In ?\[\d+\]|File [^\n]*?)(?:,? ?line |:)(\d+)")
_HALF_ESCAPE = re.compile(r"\x1b[^A-Za-z]*$")
_CAUSE_FIRST = ("raised", "lost", "timed_out", "unresponsive", "interrupted", "peer_failed")
_ENAMES = {
    "lost": "RankLost",
    "timed_out": "CellTimedOut",
    "unresponsive": "CellInterrupted",
    "interrupted": "KeyboardInterrupt",
}

Thing = TypeVar("Thing")
Look = TypeVar("Look", bound=Hashable)
Key = tuple[str, str, int]
"""Kind, content, and the how-manieth of its rank."""


class Entry(msgspec.Struct):
    """One line, block or rich output of one rank; a rich one may be updated in place."""

    order: int
    """Place in the arrival of everything from all ranks."""
    kind: str
    """stdout, stderr, display or note."""
    content: str
    """The line, the lines of a block, or the fingerprint of the rich output."""
    rich: RichOutput | None = None


def height(entry: Entry) -> int:
    """Return the number of lines: a block has several, a rich output counts as one."""
    return 1 if entry.rich is not None else entry.content.count("\n") + 1


class Row(msgspec.Struct, frozen=True):
    """An entry and the ranks that share it."""

    ranks: tuple[int, ...]
    entry: Entry


def clip(row: Row, cap: int) -> Row:
    """Cut lines after `cap` characters, and a block after some lines; rich ones stay whole."""
    entry = row.entry
    if entry.rich is not None or len(entry.content) <= cap:
        return row
    lines = entry.content.split("\n")
    kept = [_clip_line(line, cap) for line in lines[:_CLIPPED_LINES]]
    more = ["…"] * (len(lines) > _CLIPPED_LINES)
    return Row(row.ranks, Entry(entry.order, entry.kind, "\n".join([*kept, *more])))


def _clip_line(line: str, cap: int) -> str:
    return line if len(line) <= cap else _HALF_ESCAPE.sub("", line[:cap]) + "…"


class ErrorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks whose cell ended badly in the same way at the same place."""

    status: str
    ename: str
    ranks: tuple[int, ...]
    messages: tuple[tuple[str, tuple[int, ...]], ...]
    """Distinct texts of the error and their ranks."""
    traceback: str

    @property
    def heading(self) -> str:
        """Name the error and its ranks: `ZeroDivisionError on ranks 3,9-11 (4)`."""
        count = f" ({len(self.ranks)})" if len(self.ranks) > 1 else ""
        return f"{self.ename} on {name_ranks(self.ranks)}{count}"


def label_ranks(ranks: Sequence[int]) -> str:
    """Write ranks as the prefix of a line: `[0-3,7]`, shortened where there are many pieces."""
    text = format_ranks(ranks)
    if len(text) <= _LABEL_CAP:
        return f"[{text}]"
    return f"[{text[: _LABEL_CAP - 6].rpartition(',')[0]},… {len(ranks)} ranks]"


def merge(sequences: Mapping[Ranks, Sequence[Entry]]) -> list[Row]:
    """Merge what several ranks said into one sequence in which equal entries are one row.

    Ranks that said the same have one sequence. The k-th occurrence of a line on one rank stands
    beside the k-th on the others. Each rank's own order is kept; among rows that could come next
    the one that arrived first comes first. Where two ranks said the same lines in another order,
    the rows are split rather than moved.
    """
    return _rows(sequences, _ByArrival)


def merge_in_step(sequences: Mapping[Ranks, Sequence[Entry]]) -> list[Row]:
    """Merge as `merge` does, in an order that has nothing to do with when entries arrived.

    Ranks go in step: the first rows of all of them come before the second rows, each in the order
    of their first ranks. A row that ranks share is one step later than what all of these have said
    before it.
    """
    return _rows(sequences, _InStep)


def _rows(sequences: Mapping[Ranks, Sequence[Entry]], merging: "type[_Merging]") -> list[Row]:
    if len(sequences) == 1:
        ((ranks, entries),) = sequences.items()
        return [Row(ranks, entry) for entry in entries]
    return merging(sequences).run()


class _Merging(ABC):
    """The queues of one merge: a row is ready when everyone who has it has it at the head."""

    def __init__(self, sequences: Mapping[Ranks, Sequence[Entry]]) -> None:
        self._sequences = {ranks: entries for ranks, entries in sequences.items() if entries}
        self._keys = {ranks: _count_keys(entries) for ranks, entries in self._sequences.items()}
        self._owners = Counter(key for keys in self._keys.values() for key in keys)
        self._position = dict.fromkeys(self._sequences, 0)
        self._waiting: dict[Key, list[Ranks]] = {}
        self._united: dict[tuple[Ranks, ...], Ranks] = {}
        self._places: dict[Key, tuple[int, int]] = {}
        """Of rows at the head of someone; the lowest comes first."""
        self._shown: dict[Key, Entry] = {}
        """What such a row shows."""
        self._ready: list[tuple[tuple[int, int], Key]] = []

    def run(self) -> list[Row]:
        rows = []
        for ranks in self._sequences:
            self._arrive(ranks, 0)
        while self._waiting:
            if self._ready:
                _, key = heapq.heappop(self._ready)
            else:
                key = min(self._waiting, key=self._places.__getitem__)
            rows.append(self._take(key))
        return rows

    def _arrive(self, ranks: Ranks, step: int) -> None:
        position = self._position[ranks]
        keys = self._keys[ranks]
        if position == len(keys):
            return
        key = keys[position]
        members = self._waiting.setdefault(key, [])
        members.append(ranks)
        self._place(key, ranks, self._sequences[ranks][position], step)
        if len(members) == self._owners[key]:
            heapq.heappush(self._ready, (self._places[key], key))

    @abstractmethod
    def _place(self, key: Key, ranks: Ranks, entry: Entry, step: int) -> None:
        """Note the place of a row, and what it shows, now that these ranks have it at the head."""

    def _take(self, key: Key) -> Row:
        members = self._waiting.pop(key)
        self._owners[key] -= len(members)
        step, _ = self._places.pop(key)
        shown = self._shown.pop(key)
        for ranks in members:
            self._position[ranks] += 1
        for ranks in members:
            self._arrive(ranks, step + 1)
        same = members[0] if len(members) == 1 else self._unite(tuple(members))
        return Row(same, shown)

    def _unite(self, members: tuple[Ranks, ...]) -> Ranks:
        united = self._united.get(members)
        if united is None:
            united = self._united[members] = tuple(sorted(itertools.chain.from_iterable(members)))
        return united


class _ByArrival(_Merging):
    """What arrived first comes first."""

    def _place(self, key: Key, ranks: Ranks, entry: Entry, step: int) -> None:  # noqa: ARG002
        known = self._places.get(key)
        if known is None or entry.order < known[0]:
            self._places[key] = entry.order, 0
            self._shown[key] = entry


class _InStep(_Merging):
    """What ranks have said after equally many rows comes in rank order."""

    def _place(self, key: Key, ranks: Ranks, entry: Entry, step: int) -> None:
        known_step, known_rank = self._places.get(key, (step, ranks[0]))
        if ranks[0] <= known_rank:
            self._shown[key] = entry
        self._places[key] = max(step, known_step), min(ranks[0], known_rank)


def _count_keys(entries: Sequence[Entry]) -> list[Key]:
    seen: dict[tuple[str, str], int] = {}
    keys = []
    for entry in entries:
        what = (entry.kind, entry.content)
        count = seen[what] = seen.get(what, 0) + 1
        keys.append((entry.kind, entry.content, count))
    return keys


class LineMerger:
    """Merge while lines still come: hand out a row when nobody else can join it, or in time."""

    def __init__(self) -> None:
        self._pending = _nothing_pending()
        self._arrivals: deque[tuple[int, float]] = deque()
        self._decided_order = -1

    def offer(self, ranks: Sequence[int], entries: Sequence[Entry], now_s: float) -> None:
        """Take in what ranks said, each of them the same, in its order of arrival."""
        if entries:
            for _, pending in self._pending.take(ranks):
                pending.extend(entries)
            self._arrivals.append((entries[-1].order, now_s))

    def settle(self, now_s: float, running: int, finished: frozenset[int]) -> list[Row]:
        """Hand out the rows that are decided.

        `running` is the number of ranks that may still print, `finished` those that cannot.
        """
        pending = {ranks: list(entries) for ranks, entries in self._pending if entries}
        if not pending:
            return []
        if not running:
            self._pending = _nothing_pending()
            return merge(pending)
        while self._arrivals and self._arrivals[0][1] <= now_s - DECIDE_AFTER_S:
            self._decided_order = max(self._decided_order, self._arrivals.popleft()[0])
        self._decide_when_full(pending)
        queues = {ranks[0]: entries for ranks, entries in self._pending}
        rows = []
        for row in merge(pending):
            is_complete = len(set(row.ranks) - finished) >= running
            if not is_complete and row.entry.order > self._decided_order:
                break
            rows.append(row)
            for rank in queues.keys() & row.ranks:
                queues[rank].popleft()
        return rows

    def _decide_when_full(self, pending: Mapping[Ranks, Sequence[Entry]]) -> None:
        """Give up waiting for company for the older half, when too much waits."""
        if sum(map(len, pending.values())) > _PENDING_CAP:
            orders = sorted(entry.order for entries in pending.values() for entry in entries)
            self._decided_order = max(self._decided_order, orders[len(orders) // 2])


def _nothing_pending() -> SharedStates[deque[Entry]]:
    return SharedStates(deque, deque.copy)


def group_by(things: Iterable[Thing], key: Callable[[Thing], Look]) -> dict[Look, list[Thing]]:
    """Put together what has equal keys, in the order in which they come."""
    return group_pairs((key(thing), thing) for thing in things)


def group_equal(what: Mapping[int, Hashable]) -> list[tuple[int, ...]]:
    """Group ranks with equal values, in the order of the groups' first ranks."""
    return [tuple(ranks) for ranks in group_by(sorted(what), what.__getitem__).values()]


def outliers_first(groups: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Put the smallest groups first; equally small ones in rank order."""
    return sorted(groups, key=lambda ranks: (len(ranks), ranks[0]))


def group_errors(finished: Mapping[int, RankFinished]) -> tuple[ErrorGroup, ...]:
    """Group what went wrong by status, exception type and last frame; causes come first."""
    bad = {rank: result for rank, result in finished.items() if result.status != "ok"}
    keys = {rank: _error_key(result) for rank, result in bad.items()}
    groups = [_error_group(ranks, bad) for ranks in group_equal(keys)]
    return tuple(sorted(groups, key=_cause_order))


def _cause_order(group: ErrorGroup) -> tuple[int, int]:
    known = group.status in _CAUSE_FIRST
    return (_CAUSE_FIRST.index(group.status) if known else len(_CAUSE_FIRST), group.ranks[0])


def _error_of(result: RankFinished) -> ErrorInfo:
    return result.error or ErrorInfo(_ENAMES.get(result.status, result.status), "")


def _error_key(result: RankFinished) -> Hashable:
    error = _error_of(result)
    return result.status, error.ename, last_frame(error.traceback)


def last_frame(traceback: Sequence[str]) -> str:
    """Name the innermost place that a traceback tells: `Cell In[3]:7`, or an empty string."""
    lines = strip_ansi("\n".join(traceback)).split("\n")
    # Lines of code and of frames are short; to search others for a frame could take minutes.
    found = _FRAME.findall("\n".join(line[:_FRAME_CAP] for line in lines))
    return ":".join(found[-1]) if found else ""


def _error_group(ranks: tuple[int, ...], bad: Mapping[int, RankFinished]) -> ErrorGroup:
    first = bad[ranks[0]]
    error = _error_of(first)
    texts = {rank: _error_of(bad[rank]).evalue for rank in ranks}
    return ErrorGroup(
        status=first.status,
        ename=error.ename or _ENAMES.get(first.status, first.status),
        ranks=ranks,
        messages=tuple((texts[same[0]], same) for same in group_equal(texts)),
        traceback="\n".join(error.traceback),
    )
