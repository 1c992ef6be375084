"""What ranks said in a cell, within bounds: the first lines, the last ones, the rich outputs."""

import copy
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter

import msgspec

from jupyter_dist.protocol.messages import Output
from jupyter_dist.views.outputs.grouping import Entry, height
from jupyter_dist.views.outputs.lines import LineAssembler
from jupyter_dist.views.outputs.rich_outputs import read_bundle

HEAD_CAP = 4 * 1024
"""Characters of a rank's first lines that are kept."""
BLOCK_LINES = 200
BLOCK_CAP = 16 * 1024
"""Lines and characters that are kept together at most."""
TAIL_CAP = 64 * 1024
"""Characters of a rank's last lines that are kept."""
RICH_CAP = 16 * 1024 * 1024
"""Characters of a rank's rich outputs that are kept."""
_order = attrgetter("order")


class Excerpt(msgspec.Struct, frozen=True):
    """What is kept, around the place where lines were left out."""

    before: list[Entry]
    left_out: int
    after: list[Entry]


class Transcript:
    """Take in the outputs of one rank, or of several that say the same, as a terminal would.

    `orders` counts what arrives of all of them.
    """

    def __init__(self, orders: Iterator[int]) -> None:
        self._orders = orders
        self._clear_on_next = False
        self._start()

    def _start(self) -> None:
        self._streams = {"stdout": LineAssembler(), "stderr": LineAssembler()}
        self._head: list[Entry] = []
        self._head_size = 0
        self._tail: deque[Entry] = deque()
        self._tail_size = 0
        self._rich: deque[Entry] = deque()
        self._rich_size = 0
        self._by_display_id: dict[str, Entry] = {}
        self.left_out = 0
        self.line_count = 0
        self.first_left_out: int | None = None
        self._digest = 0

    def copy(self) -> "Transcript":
        """Return one that has taken in the same, and goes on by itself."""
        rich = {id(entry): copy.copy(entry) for entry in self._rich}  # these are updated in place
        known = self._by_display_id.items()
        twin = copy.copy(self)
        vars(twin).update(
            _streams={kind: copy.copy(stream) for kind, stream in self._streams.items()},
            _head=self._head.copy(),
            _tail=self._tail.copy(),
            _rich=deque(rich.values()),
            _by_display_id={name: rich.get(id(entry), entry) for name, entry in known},
        )
        return twin

    def take(self, outputs: Sequence[Output]) -> list[Entry]:
        """Take in outputs; return the finished lines and rich outputs among them."""
        new: list[Entry] = []
        for output in outputs:
            try:
                new += self._take_one(output)
            except Exception as problem:  # noqa: BLE001  (one output must not cost the others)
                told = f"[a {output.kind} cannot be drawn: {type(problem).__name__}]"
                new += self._add_lines("note", [told])
        return new

    def _take_one(self, output: Output) -> Sequence[Entry]:
        kind = output.kind
        if kind in self._streams:
            self._clear_if_due()
            lines = self._streams[kind].feed(output.text)
            return self._add_block(kind, lines) if output.is_block else self._add_lines(kind, lines)
        if kind == "note":
            return self._add_lines("note", output.text.splitlines())
        if kind == "clear_output":
            self._clear(bool(output.data.get("wait") or output.metadata.get("wait")))
        elif kind in ("display", "update_display"):
            return self._show(output)
        return ()

    def end_lines(self) -> list[Entry]:
        """End the partial lines; no more text follows on them."""
        return [
            entry
            for kind, stream in self._streams.items()
            for entry in self._add_lines(kind, stream.flush())
        ]

    def excerpt(self) -> Excerpt:
        """Return what is kept, partial lines included, without changing anything."""
        gap = self.first_left_out
        before, after = list(self._head), [*self._tail, *self._partial_lines()]
        for entry in self._rich:
            (before if gap is not None and entry.order < gap else after).append(entry)
        if gap is None:
            return Excerpt([], 0, sorted([*before, *after], key=_order))
        return Excerpt(sorted(before, key=_order), self.left_out, sorted(after, key=_order))

    def last(self, count: int) -> list[Entry]:
        """Return the last entries of at least `count` lines, partial lines included."""
        entries: list[Entry] = []
        lines = 0
        for entry in itertools.chain(reversed(self._tail), reversed(self._head)):
            if lines >= count:
                break
            entries.append(entry)
            lines += height(entry)
        entries.reverse()
        partial = self._partial_lines()
        entries += partial
        first = entries[0].order if lines + len(partial) >= count else -1
        rich = [entry for entry in self._rich if entry.order >= first]
        return sorted([*entries, *rich], key=_order)[-count:] if rich else entries[-count:]

    def last_lines(self, count: int) -> list[str]:
        """Return these entries as lines of text; rich outputs are told by their plain text."""
        return [
            line
            for entry in self.last(count)
            for line in (entry.rich.stand_in if entry.rich else entry.content).splitlines() or [""]
        ]

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Equal for ranks that said the same so far, with what was left out counted in."""
        partial = tuple((entry.kind, entry.content) for entry in self._partial_lines())
        return (self._digest, partial, tuple(entry.content for entry in self._rich))

    @property
    def is_empty(self) -> bool:
        """It has nothing to show, its value aside."""
        return not (self._head or self._tail or self._rich or self._partial_lines())

    @property
    def has_partial_lines(self) -> bool:
        """The last line of a stream has not ended yet."""
        return any(stream.has_partial for stream in self._streams.values())

    def _partial_lines(self) -> list[Entry]:
        # After everything that has arrived: a partial line is the last thing of its rank.
        return [
            Entry(1 << 62, kind, line)
            for kind, stream in self._streams.items()
            if (line := stream.partial)
        ]

    def _clear(self, wait: bool) -> None:
        if wait:
            self._clear_on_next = True
        else:
            self._start()

    def _clear_if_due(self) -> None:
        if self._clear_on_next:
            self._clear_on_next = False
            self._start()

    def _add_block(self, kind: str, lines: Sequence[str]) -> list[Entry]:
        """Keep lines together that were said at once, unless they are very many."""
        is_small = len(lines) <= BLOCK_LINES and sum(map(len, lines)) <= BLOCK_CAP
        return self._add_lines(kind, ["\n".join(lines)] if lines and is_small else lines)

    def _add_lines(self, kind: str, lines: Sequence[str]) -> list[Entry]:
        entries = [
            Entry(order, kind, line) for line, order in zip(lines, self._orders, strict=False)
        ]
        for line in lines:
            self._digest = hash((self._digest, kind, line))
        size = sum(map(len, lines)) + len(lines)
        if not self._tail and self._head_size + size <= HEAD_CAP:
            self._head += entries
            self._head_size += size
        else:
            self._fill(entries)
        self.line_count += len(lines) + "".join(lines).count("\n")
        return entries

    def _fill(self, entries: Sequence[Entry]) -> None:
        """Keep what does not all belong to the head."""
        for entry in entries:
            length = len(entry.content) + 1
            if not self._tail and self._head_size + length <= HEAD_CAP:
                self._head.append(entry)
                self._head_size += length
            else:
                self._tail.append(entry)
                self._tail_size += length
        if self._tail_size > TAIL_CAP:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        if self.first_left_out is None:
            self.first_left_out = self._tail[0].order
        while self._tail_size > TAIL_CAP:
            oldest = self._tail.popleft()
            self._tail_size -= len(oldest.content) + 1
            self.left_out += height(oldest)

    def _show(self, output: Output) -> list[Entry]:
        rich = read_bundle(output.data, output.metadata)
        if rich is None:
            return []
        known = self._by_display_id.get(output.display_id) if output.display_id else None
        if output.kind == "update_display" and known is not None:
            if known.content == rich.fingerprint:
                return []
            known.content, known.rich = rich.fingerprint, rich
            return [Entry(next(self._orders), "display", rich.fingerprint, rich)]
        self._clear_if_due()
        ended = self.end_lines()
        if rich.is_text and not output.display_id:
            return ended + self._add_block("display", rich.payload.splitlines())
        entry = Entry(next(self._orders), "display", rich.fingerprint, rich)
        if output.display_id:
            self._by_display_id[output.display_id] = entry
        self._keep_rich(entry, len(rich.payload))
        return [*ended, entry]

    def _keep_rich(self, entry: Entry, size: int) -> None:
        self._digest = hash((self._digest, "rich"))
        self._rich.append(entry)
        self._rich_size += size
        while self._rich_size > RICH_CAP and len(self._rich) > 1:
            oldest = self._rich.popleft().rich
            self._rich_size -= len(oldest.payload) if oldest else 0
