"""The file that each cell has on its host, as debuggers and stacks name it."""

import re

NAME = r"In_(\d+)_[0-9a-f]{8}\.py"
_IN_TRACEBACK = re.compile(rf'[Ff]ile "(?:[^"\n\x1b]{{0,300}}/)?{NAME}", line ')
_ANYWHERE = re.compile(rf"""(?:/[^\s"'\x1b]{{0,300}}/)?\b{NAME}\b""")
CELL_FILE = re.compile(rf"(?:^|/){NAME}$")


def write_file_name(number: int, digest: str) -> str:
    """Name the file of the cell with this number; `digest` of its code has eight hex digits."""
    return f"In_{number}_{digest}.py"


def name_cell_file(file_name: str) -> str:
    """Name the cell whose file this is, as `In[3]`; empty for other files."""
    match = CELL_FILE.search(file_name)
    return f"In[{match[1]}]" if match else ""


def name_cells(text: str) -> str:
    """Return a text in which each file of a cell, as warnings and tracebacks name it, is `In[3]`.

    `File "/dev/shm/x/In_3_0a1b2c3d.py", line 7` becomes `In[3]:7`.
    """
    if "In_" not in text:
        return text
    return _ANYWHERE.sub(r"In[\1]", _IN_TRACEBACK.sub(r"In[\1]:", text))
