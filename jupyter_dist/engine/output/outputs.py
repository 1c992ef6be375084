"""What a rank says: streams that go to a file first, and are read back as whole lines.

Python's `print`, C libraries and child processes all write to the same file descriptors, and
those lead to a file instead of a pipe. So nothing can block on a slow reader, the order is the
true one, and what was said before a crash is on disk for the agent to find.
"""

import codecs
import contextlib
import io
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from jupyter_dist.engine.output.bar_collector import BarCollector
from jupyter_dist.engine.output.library_messages import drop_chatter, may_become_chatter
from jupyter_dist.model.ranks.source_files import name_cells, name_places
from jupyter_dist.protocol.messages import Output

STREAMS = ("stdout", "stderr")
PARTIAL_LINE_PATIENCE_S = 0.2
_READ_BYTES = 1 << 20
_MOST_OF_BLOCK = 16_384
"""Characters of a text that is kept together, at most."""


class _StreamFile(io.RawIOBase):
    """Writes to a descriptor; when that fails (full disk, closed), hands the bytes over instead."""

    def __init__(self, descriptor: int, rescue: Callable[[bytes], None]) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._rescue = rescue
        self._written: list[int] = []
        """How much of what comes again is written already."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any) -> int:
        try:
            if not self._written:
                # The interpreter looks for signals (■, an alarm of the user's) when a call has
                # come back. What their handlers raise must not hide that this was written: the
                # buffer above would send it again.
                self._written.extend(map(os.write, (self._descriptor,), (data,)))
        except OSError as error:
            if self._written or error.errno is None:  # not the kernel's, but a handler's
                raise
            rest = bytes(data)
            self._rescue(rest)
            return len(rest)
        written, self._written = self._written[0], []  # no call from here on, so no signal
        return written  # the buffer above sends what is left again


_write = io.TextIOWrapper.write


class _Stream(io.TextIOWrapper):
    """`sys.stdout` of a rank: closing it flushes and leaves it usable."""

    blocks: deque[tuple[int, int]]
    """Where in the file lines begin and end that were written at once, as those of a table."""

    def write(self, text: str) -> int:
        """Write a text, and note where it stands if it has several lines."""
        # What is no text is an error of the plain stream; a single line costs as little as can be.
        if text.__class__ is str and "\n" in text and text != "\n":
            self._note_block(text)
        return _write(self, text)

    def _note_block(self, text: str) -> None:
        if "\n" not in text[:-1] or len(text) > _MOST_OF_BLOCK:
            return
        with contextlib.suppress(OSError, ValueError):  # a cell may have closed or replaced it
            self.flush()
            begin = os.fstat(self.fileno()).st_size
            # Before it is written: what is read meanwhile waits for the rest of the block.
            self.blocks.append((begin, begin + len(text.encode("utf-8", "backslashreplace"))))

    def close(self) -> None:
        self.flush()


class _Tail:
    """Reads what was appended to one stream's file, as whole lines where possible."""

    def __init__(self, name: str, path: str, descriptor: int) -> None:
        self.name = name
        self.offset = 0
        self.rescued: list[bytes] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._pending = ""
        self._pending_since_s = 0.0
        self._marks: deque[tuple[int, int]] = deque()
        """Blocks that are not read yet, by their places in the file."""
        self._blocks: list[tuple[int, int]] = []
        """Blocks in what is pending, by their places in it."""
        self._begun_at: int | None = None
        """Where the block begins of which a part is still to come."""
        self._file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._descriptor = descriptor
        self.stream = self._open_stream()

    def _open_stream(self) -> _Stream:
        stream = _Stream(
            io.BufferedWriter(_StreamFile(self._descriptor, self.rescued.append)),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )
        stream.blocks = self._marks
        return stream

    def flush(self) -> None:
        """Write what Python still holds back; a stream that a cell took apart is made again."""
        try:
            self.stream.flush()
        except ValueError:
            self.stream = self._open_stream()

    def read(self, is_final: bool) -> list[Output]:
        """Return new text: up to the last line end, or all of it when final or waited for.

        What libraries say of their own affairs is left out, and files of cells on stderr are
        `In[3]`; both stay in the file.
        """
        data = os.pread(self._file, _READ_BYTES, self.offset)
        while data:
            self._decode(data)
            self.offset += len(data)
            data = os.pread(self._file, _READ_BYTES, self.offset)
        while self.rescued:
            self._append(self._decoder.decode(self.rescued.pop(0)))
        if is_final:  # what was to come of a block has gone elsewhere
            self._marks.clear()
            self._begun_at = None
        if not self._pending:
            return []
        end = max(self._pending.rfind("\n"), self._pending.rfind("\r")) + 1
        has_waited = monotonic() - self._pending_since_s > PARTIAL_LINE_PATIENCE_S
        if is_final or (has_waited and not may_become_chatter(self._pending[end:])):
            end = len(self._pending)
            self._begun_at = None
        else:
            end = self._hold_back(end)
        if not end:
            return []
        self._pending_since_s = monotonic()  # else the half line has been waiting all the time
        return self._hand_out(end)

    def _decode(self, data: bytes) -> None:
        """Append what was read from `offset` on, and find where blocks begin and end in it."""
        marks, first, done = self._marks, self.offset, 0
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


class Outputs:
    """Collects everything a rank says, in order."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._batch: list[Output] = []
        self.owner = ""
        """The cell or task that says what comes; the main thread sets it."""
        self.bars = BarCollector()
        self._tails = [
            _Tail(name, paths[name], descriptor)
            for name, descriptor in zip(STREAMS, (1, 2), strict=True)
        ]
        self._spare = [os.dup(descriptor) for descriptor in (1, 2)]

    def install(self) -> None:
        """Make them Python's streams."""
        sys.stdout, sys.stderr = (tail.stream for tail in self._tails)
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]

    def repair(self) -> None:
        """Undo what a cell did to the streams: closed or replaced descriptors and objects."""
        for descriptor, spare, tail in zip((1, 2), self._spare, self._tails, strict=True):
            if not _is_same_file(descriptor, spare):
                os.dup2(spare, descriptor)
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
            self._batch.append(output)

    def take(
        self, owner: str = "", is_final: bool = False
    ) -> tuple[tuple[Output, ...], tuple[int, int]]:
        """Hand out what this owner has said, and how many bytes of each stream are read so far.

        What was said before it began, and not taken, counts as its own.
        """
        with self._lock:
            if self.owner != owner:  # it has ended meanwhile, with all that it had said
                return (), self.offsets
            self._collect(is_final)
            self._batch += self.bars.take(monotonic(), is_final=is_final)
            batch, self._batch = tuple(self._batch), []
            self.owner = "" if is_final else owner
            return batch, self.offsets

    @property
    def offsets(self) -> tuple[int, int]:
        """How many bytes of stdout and stderr are read so far."""
        return self._tails[0].offset, self._tails[1].offset

    def _collect(self, is_final: bool) -> None:
        for tail in self._tails:
            if is_final:
                tail.flush()
            self._batch += tail.read(is_final)


def is_own_stream(stream: Any) -> bool:
    """Return whether what is written there is shown as the rank's own output."""
    try:
        return stream.fileno() in (1, 2)
    except (AttributeError, OSError, ValueError):
        return False


def _is_same_file(descriptor: int, other: int) -> bool:
    try:
        return os.path.sameopenfile(descriptor, other)
    except OSError:
        return False
