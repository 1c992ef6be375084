"""The notebooks of the demo: which there are, and how they are copied."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

NAMES = (
    "01_first_cell.ipynb",
    "03_collectives.ipynb",
    "04_lose_a_rank.ipynb",
    "09_values_and_background.ipynb",
)
"""They run on 4 local ranks with nothing else installed, and remove nothing of the folder that they
are in; pyproject.toml ships the same."""
_SHIPPED = Path(__file__).with_name("shipped")
_IN_SOURCES = Path(__file__).parents[3] / "notebooks"
_LINK_OUT = re.compile(r"\[([^]]*)\]\(\.\./[^)]*\)")
"""A link of Markdown to a file of the repository, which a copy does not have beside it."""


class Copied(NamedTuple):
    """What became of one notebook."""

    path: Path
    is_kept: bool
    """Whether another file of this name was there, and was left as it was."""


def copy_notebooks(folder: Path) -> Iterator[Copied]:
    """Copy each notebook into a folder, and make that; files that are there stay as they are.

    Raise OSError where the folder cannot be made or written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    source = _SHIPPED if _SHIPPED.exists() else _IN_SOURCES
    for name in NAMES:
        notebook = without_outputs((source / name).read_bytes())
        path = folder / name
        try:
            with path.open("xb") as file:
                file.write(notebook)
        except FileExistsError:
            yield Copied(path, is_kept=path.read_bytes() != notebook)
        else:
            yield Copied(path, is_kept=False)


def without_outputs(stored: bytes) -> bytes:
    """Return a notebook as it is before the first run: what it shows is the reader's own.

    Links that lead out of its folder become their words.
    """
    notebook = json.loads(stored)
    for cell in notebook["cells"]:
        cell["metadata"].pop("execution", None)
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
        else:
            cell["source"] = _LINK_OUT.sub(r"\1", "".join(cell["source"]))
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()
