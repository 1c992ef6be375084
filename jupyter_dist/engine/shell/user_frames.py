"""Which source files stand between users and their code, and are left out of what they see."""

import os

import IPython

from jupyter_dist.model.ranks.source_files import is_own_file

_IPYTHON_DIR = os.path.dirname(os.path.abspath(IPython.__file__)) + os.sep
"""Calls user code, whose frames are not ours."""


def is_of_ipython(file: str) -> bool:
    """Return whether it is code of IPython."""
    return file.startswith(_IPYTHON_DIR)


def is_of_start(file: str) -> bool:
    """Return whether it belongs to how the process was started."""
    return is_own_file(file) or file.startswith("<frozen ")


def sendable(text: str) -> str:
    """Write halves of characters, which file names may have, so that they can be sent."""
    return text.encode(errors="backslashreplace").decode()
