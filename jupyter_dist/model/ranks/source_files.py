"""Source files: those that cells have on their hosts, and those of this package."""

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

NAME = r"In_(\d+)_[0-9a-f]{8}\.py"
_IN_TRACEBACK = re.compile(rf'[Ff]ile "(?:[^"\n\x1b]{{0,300}}/)?{NAME}", line ')
_ANYWHERE = re.compile(rf"""(?:/[^\s"'\x1b]{{0,300}}/)?\b{NAME}\b""")
_WITH_LINE = re.compile(rf"""(?:/[^\s"'\x1b]{{0,300}}/)?\b{NAME}(?="?:\d)""")
_RUNNER = re.compile(
    r"""^(?P<margin>.*)File "<frozen runpy>", line \d+, in _run_module_as_main\n"""
    r"""(?:(?P=margin).*\n){1,120}?(?=(?P=margin)In\[\d+\]:\d+, in )""",
    re.MULTILINE,
)
"""The frames of a stack from where a rank began to where it runs the cell."""
CELL_FILE = re.compile(rf"(?:^|/){NAME}$")
ANY_NUMBER = "*"
"""In place of its number in the name of a cell's file: that of each cell with this text."""
_DIGEST_BYTES = 4


PACKAGE_DIR = str(Path(__file__).parents[2]) + os.sep
_RELOADING = os.path.join(PACKAGE_DIR, "engine", "code", "reloading.py")
_PROGRAM = os.path.join(PACKAGE_DIR, "engine", "execution", "program.py")
_RUNPY = re.compile(r"^<frozen runpy>$|/runpy\.py$")


def is_own_file(file: str) -> bool:
    """Return whether a source file is of this package, and stands between users and their code."""
    return file.startswith(PACKAGE_DIR) and not runs_modules(file)


def runs_modules(file: str) -> bool:
    """Return whether a source file is the one of this package that runs modules of users."""
    return file == _RELOADING


def runs_programs(file: str) -> bool:
    """Return whether a source file is the one of this package that runs programs of users."""
    return file == _PROGRAM


def name_cell_file(file_name: str) -> str:
    """Name the cell whose file this is, as `In[3]`; empty for other files."""
    match = CELL_FILE.search(file_name)
    return f"In[{match[1]}]" if match else ""


def find_user_code(
    files: Sequence[str], name_cell: Callable[[str], str] = name_cell_file
) -> int | None:
    """Return where in a stack a cell or program begins, by the files of its calls, outermost first.

    None: neither runs.
    """
    for at in reversed(range(len(files))):
        if runs_programs(files[at]):
            begins = next((n for n in range(at + 1, len(files)) if not _RUNPY.search(files[n])), 0)
            if begins and not is_own_file(files[begins]):
                return begins
            break
    return next((at for at, file in enumerate(files) if name_cell(file)), None)


def write_file_name(number: int | str, code: str) -> str:
    """Name the file of the cell with this number, or ANY_NUMBER, and this code."""
    digest = hashlib.blake2s(code.encode(errors="replace"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"In_{number}_{digest}.py"


def have_same_text(name: str, file_name: str) -> bool:
    """Return whether a file is of a cell whose text is that of `name`, which has ANY_NUMBER."""
    return name[:5] == f"In_{ANY_NUMBER}_" and file_name.endswith(name[4:])


def name_cells(text: str) -> str:
    """Return a text in which each file of a cell, as warnings and tracebacks name it, is `In[3]`.

    `File "/dev/shm/x/In_3_0a1b2c3d.py", line 7` becomes `In[3]:7`, and a stack begins there.
    """
    return _ANYWHERE.sub(r"In[\1]", _name_in_stacks(text)) if "In_" in text else text


def name_places(text: str) -> str:
    """Do the same only where the number of a line follows: a path alone may be wanted as one."""
    return _WITH_LINE.sub(r"In[\1]", _name_in_stacks(text)) if "In_" in text else text


def _name_in_stacks(text: str) -> str:
    text = _IN_TRACEBACK.sub(r"In[\1]:", text)
    return _RUNNER.sub("", text) if "_run_module_as_main" in text else text
