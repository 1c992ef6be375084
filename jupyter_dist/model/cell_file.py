"""The file that each cell has on its host, as debuggers and stacks name it."""

import re

NAME = r"In_(\d+)_[0-9a-f]{8}\.py"
CELL_FILE = re.compile(rf"(?:^|/){NAME}$")


def write_file_name(number: int, digest: str) -> str:
    """Name the file of the cell with this number; `digest` of its code has eight hex digits."""
    return f"In_{number}_{digest}.py"


def name_cell_file(file_name: str) -> str:
    """Name the cell whose file this is, as `In[3]`; empty for other files."""
    match = CELL_FILE.search(file_name)
    return f"In[{match[1]}]" if match else ""
