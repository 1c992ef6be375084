"""Bars of tqdm on a rank: what they would write is told in numbers, for one bar of all ranks.

tqdm's own class is taught that when a cell imports it, so whatever is made of that class
(tqdm.auto, tqdm.asyncio, classes of libraries) is taught too. A bar that writes into a file of its
own is left alone.
"""

import functools
import io
import math
import os
import re
import sys
import weakref
from collections.abc import Iterator
from time import time
from types import FrameType, ModuleType
from typing import Any

from jupyter_dist.engine.output.bar_collector import BarCollector, ProgressBar, bounded_number
from jupyter_dist.engine.output.outputs import is_own_stream
from jupyter_dist.frameworks.import_hooks import ImportHooks

_OWN = "_jupyter_dist_bar"
"""Under this name an object of tqdm keeps its bar."""
_FILE_POSITION = 4
"""Of `file` among tqdm's arguments, its self not counted."""
_CELL_FILE = re.compile(r"In_\d+_\w+")


def watch_tqdm(hooks: ImportHooks, bars: BarCollector) -> None:
    """Let the bars of tqdm tell what they show, as soon as tqdm is imported."""
    hooks.after("tqdm.std", lambda module: _teach(module, bars))
    hooks.after("tqdm.notebook", _replace_notebook_bars)


class _Nowhere(io.TextIOBase):
    """Takes the escape sequences and lines that tqdm draws a bar with."""

    encoding = "utf-8"

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        return len(text)


def _teach(module: ModuleType, bars: BarCollector) -> None:
    """Let bars that would write to the rank's own streams tell what they show instead."""
    tqdm: Any = module.tqdm
    _teach_to_begin(tqdm)
    own_display, own_close, own_iter = tqdm.display, tqdm.close, tqdm.__iter__

    @functools.wraps(own_display)
    def display(self: Any, msg: str | None = None, pos: int | None = None) -> Any:
        own = self.__dict__.get(_OWN)
        if own is None:
            return own_display(self, msg, pos)
        if not isinstance(own, ProgressBar):
            own = self.__dict__[_OWN] = _open_bar(self, bars, own)
        own.show(*_state_of(self))
        return True

    @functools.wraps(own_close)
    def close(self: Any) -> None:
        was_open = not getattr(self, "disable", True)
        own_close(self)
        own = self.__dict__.get(_OWN)
        if was_open and isinstance(own, ProgressBar):
            own.show(*_state_of(self))
            own.close()

    @functools.wraps(own_iter)
    def iterate(self: Any) -> Any:
        is_ours = isinstance(self.__dict__.get(_OWN), ProgressBar)
        return _count(self) if is_ours else own_iter(self)

    tqdm.display, tqdm.close, tqdm.__iter__ = display, close, iterate


def _teach_to_begin(tqdm: Any) -> None:
    """Let bars for the rank's own streams remember where they were made, and write nothing."""
    own_init = tqdm.__init__
    pid = os.getpid()

    @functools.wraps(own_init)
    def init(self: Any, *arguments: Any, **options: Any) -> None:
        is_by_position = len(arguments) > _FILE_POSITION
        given = arguments[_FILE_POSITION] if is_by_position else options.get("file")
        # What a forked child of the rank shows cannot be collected here.
        stream = sys.stderr if given is None else given
        if os.getpid() == pid and not options.get("gui") and is_own_stream(stream):
            if is_by_position:
                after = arguments[_FILE_POSITION + 1 :]
                arguments = (*arguments[:_FILE_POSITION], _Nowhere(), *after)
            else:
                options["file"] = _Nowhere()
            self.__dict__[_OWN] = _place_of(sys._getframe(1))  # noqa: SLF001
        own_init(self, *arguments, **options)

    tqdm.__init__ = init


def _count(tqdm: Any) -> Iterator[Any]:
    """Go through what a bar is of, and count each step.

    tqdm itself counts ten times a second, so a rank that hangs would seem to be less far. What
    the loop has put into words meanwhile (its loss, say) is shown as often as tqdm would.
    """
    shown_s = time()
    try:
        for each in tqdm.iterable:
            yield each
            tqdm.n += 1
            if (now_s := time()) - shown_s >= tqdm.mininterval:
                tqdm.refresh()
                shown_s = now_s
    finally:
        tqdm.close()


def _replace_notebook_bars(module: ModuleType) -> None:
    """Use plain bars instead of those that are widgets, which cannot live on a rank."""
    plain: Any = sys.modules["tqdm.std"].tqdm

    class RankTqdm(plain):  # type: ignore[misc]
        """tqdm's notebook bar, as far as programs call it."""

        def __init__(self, *arguments: Any, display: bool = True, **options: Any) -> None:
            del display
            super().__init__(*arguments, **options)

        def display(self, msg: str | None = None, pos: int | None = None, **_: Any) -> Any:
            return super().display(msg, pos)

    def trange(*arguments: Any, **options: Any) -> Any:
        return RankTqdm(range(*arguments), **options)

    names = {"tqdm_notebook": RankTqdm, "tqdm": RankTqdm, "tnrange": trange, "trange": trange}
    vars(module).update(names)


def _open_bar(tqdm: Any, bars: BarCollector, place: str) -> ProgressBar:
    # Not kept alive by us; one that is forgotten without a word is over.
    known = weakref.ref(tqdm, lambda _: bar.close())
    bar = bars.open(place, functools.partial(_look_at, known))
    return bar


def _look_at(known: "weakref.ref[Any]") -> tuple[Any, float]:
    """Read a bar's count and time, from another thread than the one that moves it.

    Classes of users may have properties there that raise: such a bar is not looked at.
    """
    tqdm: Any = known()
    try:
        start_s, count = getattr(tqdm, "start_t", None), getattr(tqdm, "n", None)
        elapsed_s = time() - start_s if isinstance(start_s, int | float) else 0.0
    except BaseException:  # noqa: BLE001  (on the link thread: it must live)
        return None, 0.0
    return count, elapsed_s if math.isfinite(elapsed_s) else 0.0


def _place_of(frame: FrameType | None) -> str:
    """Name the line that made the bar: the same on ranks that run the same code."""
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] != "tqdm" and module != __name__:
            break
        frame = frame.f_back
    if frame is None:
        return ""
    file = frame.f_code.co_filename
    cell = _CELL_FILE.search(file)
    # Hosts have their packages in different folders.
    name = cell[0] if cell else "/".join(file.rsplit("/", 2)[-2:])
    return f"{name}:{frame.f_lineno}"


def _state_of(tqdm: Any) -> tuple[dict[str, Any], float]:
    """Read what a bar shows, and its time in seconds."""
    shown = tqdm.format_dict
    position = abs(getattr(tqdm, "pos", 0))
    leave = tqdm.leave
    state = {
        "description": str(shown["prefix"] or "").removesuffix(": "),
        "n": _plain_number(shown["n"]) or 0,
        "total": _plain_number(shown["total"]),
        "unit": str(shown["unit"]),
    }
    unusual = {
        "initial": _plain_number(shown.get("initial")),
        "postfix": str(shown.get("postfix") or ""),
        "divisor": int(shown.get("unit_divisor") or 1000) if shown.get("unit_scale") else 0,
        "vanishes": not (position == 0 if leave is None else leave),
    }
    state.update((name, value) for name, value in unusual.items() if value)
    elapsed_s = float(shown["elapsed"] or 0.0)
    return state, elapsed_s if math.isfinite(elapsed_s) else 0.0


def _plain_number(number: Any) -> int | float | None:
    """Make a plain number of whatever stands for one; called where user code runs."""
    if number is None:
        return None
    if type(number) not in (int, float):
        value = float(number)
        number = int(value) if value.is_integer() else value
    return bounded_number(number)
