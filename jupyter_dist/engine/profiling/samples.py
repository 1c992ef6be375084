"""The stacks of samples as a user sees them: from the cell on, without frames of this package."""

import linecache
from collections.abc import Callable, Iterable

from jupyter_dist.engine.channel import channel
from jupyter_dist.engine.shell.user_frames import is_of_ipython, is_of_start, sendable
from jupyter_dist.model.ranks.source_files import is_own_file
from jupyter_dist.model.ranks.stack_reading import Call
from jupyter_dist.model.ranks.stacks import MOST_CODE, Frame

Stack = tuple[Call, ...]
"""The innermost call first."""
MOST_CALLS = 100
"""Of a deeper stack the outer calls are kept."""


class SeenStacks:
    """Stacks by number, and the frames that they consist of."""

    def __init__(
        self,
        stacks: Iterable[Stack],
        name_cell: Callable[[str], str],
        current_cell: Callable[[], str],
    ) -> None:
        self._name_cell = name_cell
        self._current_cell = current_cell
        self._numbers: dict[Frame, int] = {}
        self.stacks = tuple(self._read(calls) for calls in stacks)

    @property
    def frames(self) -> tuple[Frame, ...]:
        """What the numbers in stacks mean."""
        return tuple(self._numbers)

    def _read(self, calls: Stack) -> tuple[int, ...]:
        frames = [self._describe(call) for call in self._visible(calls[::-1])[:MOST_CALLS]]
        return tuple(self._numbers.setdefault(frame, len(self._numbers)) for frame in frames)

    def _visible(self, calls: Stack) -> Stack:
        for at, call in enumerate(calls):
            if self._name_cell(call.file):
                return _without_ours(calls[at:])
        if any(call.file == channel.__file__ for call in calls):
            return ()  # between cells
        return tuple(
            call for call in calls if not is_of_start(call.file) and not is_of_ipython(call.file)
        )

    def _describe(self, call: Call) -> Frame:
        file, line, function = call
        cell = self._name_cell(file)
        text = linecache.getline(file, line) if line else ""
        if cell and not text:
            lines = self._current_cell().splitlines()
            text = lines[line - 1] if 0 < line <= len(lines) else ""
        site = f"{cell or file}:{line}" if line else file
        return Frame(sendable(function), sendable(site), sendable(text.strip()[:MOST_CODE]))


def _without_ours(calls: Stack) -> Stack:
    """Cut a stack where user code calls into this package."""
    own = (at for at, call in enumerate(calls) if is_own_file(call.file))
    seen = calls[: next(own, len(calls))]
    return tuple(call for call in seen if not is_of_ipython(call.file))
