"""What a rank says: streams that go to a file first, and are read back as whole lines.

Python's `print`, C libraries and child processes all write to the same file descriptors, and
those lead to a file instead of a pipe. So nothing can block on a slow reader, the order is the
true one, and what was said before a crash is on disk for the agent to find. Python's stderr notes
how far stdout was, so that lines of both come as they were printed; what others write to stderr
comes behind the stdout that is read with it.
"""

import codecs
import os
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, Protocol

from jupyter_dist.engine.output.bar_collector import BarCollector
from jupyter_dist.engine.output.library_messages import drop_chatter, may_become_chatter
from jupyter_dist.engine.output.stream_file import ErrorFile, StreamFile, open_stream
from jupyter_dist.model.ranks.source_files import name_cells, name_places
from jupyter_dist.protocol.messages import Output

STREAMS = ("stdout", "stderr")
PARTIAL_LINE_PATIENCE_S = 0.2
_READ_BYTES = 1 << 20
_LINE_END = re.compile(rb"[\n\r]")


class _Tail:
    """Reads what was appended to one stream's file, as whole lines where possible."""

    def __init__(self, name: str, path: str, written: StreamFile) -> None:
        self.name = name
        self._offset = 0
        """How far the file is read."""
        self.told = 0
        """How many bytes of it are handed out: what waits for the end of its line is not.

        If this process ends now, its agent tells what follows.
        """
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._pending = ""
        self._pending_since_s = 0.0
        self._blocks: list[tuple[int, int]] = []
        """Blocks in what is pending, by their places in it."""
        self._begun_at: int | None = None
        """Where the block begins of which a part is still to come."""
        self._file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._written, written.measured = written, self._file
        self.stream = open_stream(written)

    def find_end(self) -> int:
        """Return how many bytes are written so far; 0 where a cell has closed the file."""
        try:
            return os.lseek(self._file, 0, os.SEEK_END)  # what a stat returns takes longer to make
        except OSError:
            return 0

    def flush(self) -> None:
        """Write what Python still holds back; a stream that a cell took apart is made again."""
        try:
            self.stream.flush()
        except ValueError:
            self.stream = open_stream(self._written)

    def read(self, is_final: bool, end: int) -> list[Output]:
        """Return new text before this end: whole lines, or all of it when final or waited for.

        What libraries say of their own affairs is left out, and files of cells on stderr are
        `In[3]`; both stay in the file.
        """
        rescued, blocks = self._written.rescued, self._written.blocks
        while rescued:
            place, data = rescued[0]
            if end < place <= self.find_end():  # the main thread has written that much meanwhile
                break
            self._read_to(min(place, end))
            rescued.popleft()
            self._append(self._decoder.decode(data))
        if self._offset < end:
            self._read_to(end)
        if is_final:  # what was to come of a block has gone elsewhere
            blocks.clear()
            self._begun_at = None
        outputs = self._take(is_final) if self._pending else []
        if self.told != self._offset:
            self.told = self._offset - self._count_held()
        return outputs

    def _read_to(self, end: int) -> None:
        while self._offset < end:
            data = os.pread(self._file, min(_READ_BYTES, end - self._offset), self._offset)
            if not data:  # a cell has cut it short
                break
            self._decode(data)
            self._offset += len(data)

    def _take(self, is_final: bool) -> list[Output]:
        """Hand out what of the pending text is to be handed out now."""
        whole = max(self._pending.rfind("\n"), self._pending.rfind("\r")) + 1
        has_waited = monotonic() - self._pending_since_s > PARTIAL_LINE_PATIENCE_S
        if is_final or (has_waited and not may_become_chatter(self._pending[whole:])):
            whole = len(self._pending)
            self._begun_at = None
        else:
            whole = self._hold_back(whole)
        if not whole:
            return []
        self._pending_since_s = monotonic()  # else the half line has been waiting all the time
        return self._hand_out(whole)

    def _count_held(self) -> int:
        """Return how many of the bytes that are read are not handed out yet."""
        begun = len(self._decoder.getstate()[0])
        if not self._pending:
            return begun
        text = self._pending.encode()
        # A byte that is none of UTF-8 is four characters, and what the disk did not take is not in
        # the file: so this may begin too early, and some of it be told twice.
        most = min(self._offset, begun + len(text))
        held = os.pread(self._file, most, self._offset - most)
        for _ in range(len(_LINE_END.findall(held)) - len(_LINE_END.findall(text))):
            held = held[_LINE_END.search(held).end() :]  # type: ignore[union-attr]
        return len(held)

    def _decode(self, data: bytes) -> None:
        """Append what was read from `offset` on, and find where blocks begin and end in it."""
        marks, first, done = self._written.blocks, self._offset, 0
        while marks and marks[0][0] < first + len(data):
            begin, end = (place - first for place in marks[0])
            if self._begun_at is None:
                if begin < done:  # the file is another one, or a part of it was read before
                    marks.popleft()
                    continue
                self._append(self._decoder.decode(data[done:begin]))
                self._begun_at, done = len(self._pending), begin
            if end > len(data):
                break
            self._append(self._decoder.decode(data[done:end]))
            self._blocks.append((self._begun_at, len(self._pending)))
            self._begun_at, done = None, end
            marks.popleft()
        self._append(self._decoder.decode(data[done:]))

    def _hold_back(self, end: int) -> int:
        """Return where to stop so that no block is torn apart."""
        open_at = self._begun_at
        if open_at is None and self._blocks:
            begin, stop = self._blocks[-1]
            open_at = None if "\n" in self._pending[stop - 1 :] else begin
        if open_at is None:
            return end
        return min(end, self._pending.rfind("\n", 0, open_at) + 1)

    def _hand_out(self, end: int) -> list[Output]:
        """Take so much of what is pending, blocks apart from the lines between them."""
        pending, outputs, done = self._pending, [], 0
        for begin, stop in self._blocks:
            if begin >= end:
                break
            # Whole lines: what stands before it on its first line, and the end of its last one.
            first = max(done, pending.rfind("\n", 0, begin) + 1)
            behind = pending.find("\n", stop - 1) + 1
            last = min(end, behind) if behind else end
            outputs += self._say(pending[done:first])
            outputs += self._say(pending[first:last], is_block=True)
            done = last
        outputs += self._say(pending[done:end])
        self._pending = pending[end:]
        self._blocks = [(at - end, stop - end) for at, stop in self._blocks if at >= end]
        if self._begun_at is not None:
            self._begun_at -= end
        return outputs

    def _say(self, text: str, *, is_block: bool = False) -> list[Output]:
        text = drop_chatter(text)
        text = name_cells(text) if self.name == "stderr" else name_places(text)
        is_block = is_block and "\n" in text[:-1] and "\r" not in text
        return [Output(self.name, text, is_block=is_block)] if text else []

    def _append(self, text: str) -> None:
        if not self._pending:
            self._pending_since_s = monotonic()
        self._pending += text


class Area(Protocol):
    """Something that shows what is said meanwhile in a place of its own."""

    def take(self, outputs: Sequence[Output]) -> None:
        """Take in what was said; on any thread."""


class Outputs:
    """Collects everything a rank says, in order."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._batch: list[Output] = []
        self.owner = ""
        """The cell or task that says what comes; the main thread sets it."""
        self.bars = BarCollector()
        self._errors = ErrorFile(2, beside=1)
        self._areas: list[Area | None] = []
        """Those that the main thread has entered, the innermost last; None: one without a page."""
        self._tails = [
            _Tail("stdout", paths["stdout"], StreamFile(1)),
            _Tail("stderr", paths["stderr"], self._errors),
        ]
        self._spare = [os.dup(descriptor) for descriptor in (1, 2)]
        self._files = [os.fstat(spare) for spare in self._spare]

    def install(self) -> None:
        """Make them Python's streams."""
        sys.stdout, sys.stderr = (tail.stream for tail in self._tails)
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]

    def repair(self) -> None:
        """Undo what a cell did to the streams: closed or replaced descriptors and objects."""
        for number, tail in enumerate(self._tails):
            own = self._files[number]
            try:
                found = os.fstat(1 + number)
                is_own = found.st_ino == own.st_ino and found.st_dev == own.st_dev
            except OSError:
                is_own = False
            if not is_own:
                os.dup2(self._spare[number], 1 + number)
            if getattr(tail.stream, "buffer", None) is None:  # a cell has detached it
                tail.flush()
            if getattr(sys, tail.name, None) is not tail.stream:
                setattr(sys, tail.name, tail.stream)

    def add(self, output: Output) -> None:
        """Take in a rich output, after all text that was written before it.

        So are bars that are closed: to clear the output is to clear them too.
        """
        with self._lock:
            self._collect(is_final=True)
            self._batch += self.bars.take(monotonic(), is_final=False)
            self._put([output])

    def enter_area(self, area: Area | None) -> None:
        """Give what is said from now on to this area; None: it is the rank's own output."""
        with self._lock:
            self._collect(is_final=True)
            self._areas.append(area)

    def leave_area(self) -> Area | None:
        """Leave the area that was entered last, with all that was said in it, and return it."""
        with self._lock:
            self._collect(is_final=True)
            return self._areas.pop() if self._areas else None

    def flush(self) -> None:
        """Take in all text that was written so far, half lines too."""
        with self._lock:
            self._collect(is_final=True)

    def take(
        self, owner: str = "", is_final: bool = False
    ) -> tuple[tuple[Output, ...], tuple[int, int]]:
        """Hand out what this owner has said, and how many bytes of each stream that makes.

        What was said before it began, and not taken, counts as its own.
        """
        with self._lock:
            if self.owner != owner:  # it has ended meanwhile, with all that it had said
                return (), self.offsets
            self._collect(is_final)
            self._batch += self.bars.take(monotonic(), is_final=is_final)
            batch, self._batch = tuple(self._batch), []
            if is_final:  # one that was never left
                self._areas.clear()
            self.owner = "" if is_final else owner
            return batch, self.offsets

    @property
    def offsets(self) -> tuple[int, int]:
        """How many bytes of stdout and stderr are handed out so far."""
        return self._tails[0].told, self._tails[1].told

    def _collect(self, is_final: bool) -> None:
        stdout, stderr = self._tails
        if is_final:
            stdout.flush()
            stderr.flush()
        # In this order: what is on stdout by then is not older than any of this of stderr, and
        # whatever was written between them is among the turns.
        stderr_end, stdout_end = stderr.find_end(), stdout.find_end()
        for before, end in self._take_turns() if self._errors.turns else ():
            self._put(stdout.read(is_final=False, end=before))
            self._put(stderr.read(is_final=False, end=end))
        if said := stdout.read(is_final, stdout_end):
            self._put(said)
        if said := stderr.read(is_final, stderr_end):
            self._put(said)

    def _put(self, outputs: Sequence[Output]) -> None:
        area = self._areas[-1] if self._areas else None
        if area is not None:
            if outputs:
                area.take(outputs)
        elif self._areas:
            # To clear an area without a page must not clear what was said outside of it.
            self._batch += (each for each in outputs if each.kind != "clear_output")
        else:
            self._batch += outputs

    def _take_turns(self) -> list[tuple[int, int]]:
        """Return how far stdout, and then stderr, is to be read, again and again."""
        turns = self._errors.turns
        last: dict[int, int] = {}
        while turns:
            before, end = turns.popleft()
            last[before] = end
        return list(last.items())


def is_own_stream(stream: Any) -> bool:
    """Return whether what is written there is shown as the rank's own output."""
    try:
        return stream.fileno() in (1, 2)
    except (AttributeError, OSError, ValueError):
        return False
