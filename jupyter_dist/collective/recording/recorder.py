"""What a rank is inside of, readable from outside even when its process is stuck or dead.

The recorder writes each call and each cell into a small file mapped into memory; records_file.py
has how, and how it is read. That needs nothing from the process that wrote it.
"""

import contextlib
import mmap
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic_ns
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from jupyter_dist.collective.recording.records_file import (
    AWAITED_AT,
    CALL,
    CALLS,
    CALLS_AT,
    CELL,
    CELL_TEXT_BYTES,
    CELLS,
    CELLS_AT,
    END_AT,
    FILE_BYTES,
    FIXED,
    HEADER,
    MAGIC,
    cut_end,
    pack_awaited,
    pack_call_texts,
    split_texts,
)
from jupyter_dist.model.ranks.source_files import PACKAGE_DIR, runs_programs

if TYPE_CHECKING:  # it loads numpy, and agents read records without
    from jupyter_dist.collective.calls.call import Call, Signature

_PASSED_THROUGH = contextlib.__file__
"""Its frames stand between users and our context managers."""
_MOST_CACHED = 4096
_SLOTS = tuple(CALLS_AT + slot * CALL.size for slot in range(CALLS))
_ENDS = tuple((at + END_AT) // 8 for at in _SLOTS)
_CALLS_COUNT, _CELLS_COUNT, _RANK = 1, 2, 3
"""Where the header has its counts, in numbers of eight bytes."""
_pack_call = CALL.pack_into
_frame = sys._getframe  # noqa: SLF001  (inspect's is slower)

_Sites = dict[tuple[object, ...], bytes | None]
"""By signature and instruction: what a slot says of such a call, apart from numbers and times."""


class CollectiveRecorder:
    """Keep the last calls and cells of this process in a file that others can read.

    When the file cannot be made (a full disk, say) the records stay in this process's memory and
    `is_shared` is False: recording never gets in the way of the work.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.name_cell: Callable[[str], str] = _name_plain_cell
        """Gives `In[3]` for the file name of that cell's code, and nothing for other names."""
        memory, self.is_shared = _map_file(self.path)
        self._count = 0
        self._cell_count = 0
        self._running_cell = -1
        self._cell_label = ""
        self.is_in_task = False
        """What runs is no cell, but a task of ipyparallel, of this rank alone."""
        self._codes: dict[int, _Sites | None] = {}
        """By id of a code object: None for code of ours, else what its calls have been."""
        self._cached = 0
        self._kept: list[CodeType] = []
        """Those code objects, so that nothing else gets their ids."""
        self._labels: dict[str, str] = {}
        self._passed: tuple[str, ...] = (PACKAGE_DIR,)
        self._map(memory)

    def _map(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._numbers = memoryview(memory).cast("q")
        HEADER.pack_into(memory, 0, MAGIC, 0, 0, 0)

    @property
    def rank(self) -> int:
        """Whose records these are; -1: nobody has said."""
        return int(self._numbers[_RANK]) - 1

    @rank.setter
    def rank(self, rank: int) -> None:
        self._numbers[_RANK] = rank + 1

    # --- calls: every line of these two counts -----------------------------------------------

    def begin(self, call: "Call", depth: int = 1) -> int:
        """Record that a call begins now; return the token for `end`.

        User code is at least so many calls up: to look at each of them costs.
        """
        frame: FrameType | None = _frame(depth)
        try:
            while (sites := self._codes[id(frame.f_code)]) is None:  # type: ignore[union-attr]
                frame = frame.f_back  # type: ignore[union-attr]
            fixed = sites[call.signature, frame.f_lasti]  # type: ignore[union-attr]
        except (KeyError, AttributeError):  # new code or a new call, or no frame but ours
            fixed = None
        if fixed is None:
            fixed = self._look(call.signature, frame)
        token = self._count
        self._count = token + 1
        at = _SLOTS[token % CALLS]
        _pack_call(self._memory, at, token, call.sequence, monotonic_ns(), fixed)
        self._numbers[_CALLS_COUNT] = token + 1
        return token

    def end(self, token: int, is_ok: bool = True, end_ns: int = 0) -> None:
        """Record that the call of this token has ended (now, unless `end_ns` says when)."""
        if not end_ns:
            end_ns = monotonic_ns()
        if self._count - token <= CALLS:
            self._numbers[_ENDS[token % CALLS]] = end_ns if is_ok else -end_ns

    def note_awaited(self, call: "Call", ranks: Sequence[int]) -> None:
        """Record for whose data a call waits, which it may say now and then."""
        packed = pack_awaited(call.sequence, ranks)
        self._memory[AWAITED_AT : AWAITED_AT + len(packed)] = packed

    @property
    def site(self) -> str:
        """Where the call begun last was made, as `In[3]:7`."""
        if not self._count:
            return ""
        *_, fixed = CALL.unpack_from(self._memory, _SLOTS[(self._count - 1) % CALLS])
        *_, packed = FIXED.unpack(fixed)
        return split_texts(packed, 5)[4]

    # --- cells -------------------------------------------------------------------------------

    def begin_cell(self, label: str, cell_id: str = "", is_task: bool = False) -> None:
        """Record that a cell begins now: its `In[3]`, and what the coordinator calls it."""
        self._cell_label, self.is_in_task = label, is_task
        if self._labels:  # user code has made calls
            self._forget_sites()
        self._running_cell = index = self._cell_count
        self._cell_count = index + 1
        at = CELLS_AT + index % CELLS * CELL.size
        texts = f"{label}\0{cell_id}".encode(errors="replace")
        if len(texts) > CELL_TEXT_BYTES or texts.count(b"\0") > 1:
            texts = cut_end(label, CELL_TEXT_BYTES // 2) + b"\0"
            texts += cut_end(cell_id, CELL_TEXT_BYTES - len(texts))
        CELL.pack_into(self._memory, at, index, monotonic_ns(), 0, texts)
        self._numbers[_CELLS_COUNT] = index + 1

    def end_cell(self) -> None:
        """Record that the cell ends now."""
        self.is_in_task = False
        if self._running_cell < 0:
            return
        at = CELLS_AT + self._running_cell % CELLS * CELL.size
        self._numbers[at // 8 + 2] = monotonic_ns()
        self._running_cell = -1

    def close(self) -> None:
        """Let go of the file, which stays for whoever wants to read it."""
        before, numbers = self._memory, self._numbers
        # A thread of the user may still make calls; they have to go somewhere.
        self._map(mmap.mmap(-1, FILE_BYTES))
        numbers.release()
        before.close()

    # --- where a call was made ---------------------------------------------------------------

    def pass_through(self, directory: str) -> None:
        """Take code of a framework in this directory for ours: users have called it."""
        prefix = os.path.join(directory, "")
        if prefix not in self._passed:
            self._passed += (prefix,)
            self._codes.clear()
            self._forget_sites()

    def _look(self, signature: "Signature", frame: FrameType | None) -> bytes:
        """Find the site of a call that is new here, and remember what can be remembered."""
        sites: _Sites | None = None
        while frame is not None and (sites := self._sites_of(frame.f_code)) is None:
            frame = frame.f_back
        if frame is None or sites is None:
            return _fix(signature, "")
        key: tuple[object, ...] = (signature, frame.f_lasti)
        below = self._find_cell_below(frame)
        if below is not None:
            # Another cell line may lead here the next time: that is looked up in each call.
            self._remember(sites, key, None)
            key = (*key, id(below.f_code), below.f_lasti)
        fixed = sites.get(key)
        if fixed is None:
            fixed = _fix(signature, self._name_site(frame, below))
            if below is not None:
                self._kept.append(below.f_code)
            self._remember(sites, key, fixed)
        return fixed

    def _sites_of(self, code: CodeType) -> _Sites | None:
        """Return the calls that are known of this code; None for code of ours and of frameworks."""
        try:
            return self._codes[id(code)]
        except KeyError:
            name = code.co_filename
            is_ours = name.startswith(self._passed) or name == _PASSED_THROUGH
            sites: _Sites | None = None if is_ours else {}
            self._kept.append(code)
            self._codes[id(code)] = sites
            return sites

    def _find_cell_below(self, frame: FrameType) -> FrameType | None:
        """Find the cell line that has led to a frame outside the running cell, if one has."""
        own_name = frame.f_code.co_filename
        own_label = self._label(own_name)
        if own_label and self._cell_label in (own_label, ""):
            return None
        below = frame.f_back
        while below is not None:
            name = below.f_code.co_filename
            if runs_programs(name):
                return None
            if name != own_name and self._label(name):
                return below
            below = below.f_back
        return None

    def _label(self, file_name: str) -> str:
        """Return the label of the cell that this code is of, or nothing."""
        label = self._labels.get(file_name)
        if label is None:
            label = self._labels[file_name] = self.name_cell(file_name)
        return label

    def _name_site(self, frame: FrameType, below: FrameType | None) -> str:
        name = frame.f_code.co_filename
        site = f"{self._label(name) or os.path.basename(name)}:{frame.f_lineno}"
        if below is None:
            return site
        return f"{site} < {self._label(below.f_code.co_filename)}:{below.f_lineno}"

    def _remember(self, sites: _Sites, key: tuple[object, ...], fixed: bytes | None) -> None:
        if key not in sites:
            self._cached += 1
        sites[key] = fixed
        if self._cached > _MOST_CACHED:
            self._forget_sites()

    def _forget_sites(self) -> None:
        """Forget user code: another cell leads to the same functions."""
        self._kept = [code for code in self._kept if self._codes.get(id(code), 0) is None]
        self._codes = {id(code): None for code in self._kept}
        self._labels = {}
        self._cached = 0


def _fix(signature: "Signature", site: str) -> bytes:
    """Write down what does not change between calls of a signature from one line."""
    from jupyter_dist.collective.calls.dtypes import dtype_name

    texts = pack_call_texts(
        signature.operation,
        signature.reduction,
        dtype_name(signature.dtype) if signature.dtype else "",
        signature.shape,
        signature.group,
        site,
    )
    return FIXED.pack(0, signature.nbytes, signature.root, texts)


def _name_plain_cell(file_name: str) -> str:
    """Take code that was compiled under the name `In[3]` for a cell."""
    return file_name if file_name.startswith("In[") else ""


def _map_file(path: Path) -> tuple[mmap.mmap, bool]:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            # Without blocks of its own a page of a full disk would answer a write with SIGBUS.
            if sys.platform == "linux":
                os.posix_fallocate(fd, 0, FILE_BYTES)
            else:
                os.write(fd, bytes(FILE_BYTES))
            return mmap.mmap(fd, FILE_BYTES), True
        finally:
            os.close(fd)
    except OSError:
        return mmap.mmap(-1, FILE_BYTES), False
