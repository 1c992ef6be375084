"""py-spy, which looks into processes from outside and sees calls of C and C++ too."""

import shutil
import sys
from os.path import dirname

NOT_INSTALLED = "py-spy is not installed on its host"


def find_py_spy() -> str | None:
    """Find py-spy beside this interpreter, or on PATH."""
    beside = shutil.which("py-spy", path=dirname(sys.executable))
    return beside or shutil.which("py-spy")


def say_why_not(said: str, exit_code: int | None) -> str:
    """Return why it did not look, by the first line that it has said."""
    lines = said.strip().splitlines()
    return f"py-spy may not look: {lines[0].strip() if lines else f'exit code {exit_code}'}"
