"""The code cells of a notebook file, and where each of them runs. Pure."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jupyter_dist.errors import UsageError

Where = Literal["ranks", "notebook"]

_SPMD = re.compile(r"%%spmd\b(?P<options>.*)")
_LOCAL = re.compile(r"%%local\b")
_AUTO = re.compile(r"%dist_auto\s+(?P<mode>on|off)\b")
_OURS = re.compile(r"\s*(#.*|%(load_ext|dist_\w+)\b.*)?$")


class Cell(NamedTuple):
    """One code cell."""

    name: str
    """As people find it: `cell 4`, or `cell 4 (In[7])` where it has run."""
    where: Where
    source: str
    """Without the line of `%%spmd`, in whose place a blank one stands: lines keep their numbers."""
    options: tuple[str, ...] = ()
    """What was said behind `%%spmd`."""

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing in it but comments, and starts of clusters."""
        return all(_OURS.match(line) for line in self.source.splitlines())


def read_cells(path: Path) -> list[Cell]:
    """Return the code cells of a notebook. Raise UsageError for a file that is none."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        found = [each for each in notebook["cells"] if each["cell_type"] == "code"]
        sources = [("".join(each["source"]), each.get("execution_count")) for each in found]
    except OSError as problem:
        raise UsageError(f"{path} cannot be read: {problem.strerror}.") from None
    except (ValueError, KeyError, TypeError) as problem:
        raise UsageError(
            f"{path} is no notebook of format 4 ({type(problem).__name__}: {problem}). "
            "Accepted: a file that Jupyter has saved as .ipynb."
        ) from None
    return place_cells(sources)


def place_cells(sources: Sequence[tuple[str, Any]]) -> list[Cell]:
    """Return where cells run, by their sources and the numbers of their prompts."""
    cells, is_auto = [], False
    for number, (source, prompt) in enumerate(sources, 1):
        name = f"cell {number} (In[{prompt}])" if prompt else f"cell {number}"
        cells.append(_place(name, source, is_auto=is_auto))
        for change in _AUTO.finditer(source):
            is_auto = change["mode"] == "on"
    return cells


def _place(name: str, source: str, *, is_auto: bool) -> Cell:
    head, _, body = source.partition("\n")
    if spmd := _SPMD.match(head):
        return Cell(name, "ranks", f"\n{body}", tuple(_split(spmd["options"])))
    stays = _LOCAL.match(head) or head.startswith("%%") or all(map(_OURS.match, source.split("\n")))
    return Cell(name, "ranks" if is_auto and not stays else "notebook", source)


def _split(options: str) -> list[str]:
    try:
        return shlex.split(options, comments=True)
    except ValueError:  # a quotation that does not end
        return options.split()
