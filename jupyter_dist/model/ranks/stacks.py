"""What ranks are doing, as stacks of calls: what was seen, however it was looked at."""

import re

import msgspec

_LIBRARY = re.compile(
    r"(^|/)(python\d[\d.]*|site-packages|dist-packages)/|^<frozen "
    r"|\.(so[.\d]*|dylib|c|cc|cpp|cxx|cu|h|hpp|rs|S)(:\d+)?$"
)
MOST_CODE = 200
"""Characters of a line of code that are told."""


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One call on a stack."""

    function: str
    site: str
    """Where it stands: `In[3]:7` in a cell, else `train.py:12` with the path as Python knows it."""
    code: str = ""
    """The line's text without its indentation; empty where it cannot be read."""

    @property
    def is_in_cell(self) -> bool:
        """It is code of a cell."""
        return self.site.startswith("In[")

    @property
    def is_in_library(self) -> bool:
        """It is code of Python itself, of a package that is installed, or no Python."""
        return not self.is_in_cell and bool(_LIBRARY.search(self.site))

    def __str__(self) -> str:
        where = self.site if self.function == "<module>" else f"{self.site} in {self.function}"
        return f"{where}: {self.code}" if self.code else where


class ThreadStack(msgspec.Struct, frozen=True, array_like=True):
    """The calls one thread is inside of, the innermost one last."""

    name: str
    is_main: bool
    frames: tuple[Frame, ...] = ()


class RankStacks(msgspec.Struct, frozen=True, tag=True):
    """What one rank is doing, by the way that worked.

    The main thread comes first. Frames of this package and of IPython are left out, except in
    stacks of py-spy.
    """

    source: str = "python"
    """python (the rank itself told), faulthandler or py-spy (its agent looked), or none."""
    threads: tuple[ThreadStack, ...] = ()
    process_state: str = ""
    """As in /proc: R runs, S sleeps, D waits for a disk or swap, T is stopped; empty: unknown."""
    note: str = ""
    """Why there is no stack, or what to know about it; one sentence."""

    @property
    def main(self) -> ThreadStack | None:
        """The thread that runs cells, where it was seen."""
        return next((thread for thread in self.threads if thread.is_main), None)
