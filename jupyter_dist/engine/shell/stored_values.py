"""`%store` in ranks: values outlive the cluster, and each rank has its own, beside notebooks."""

import importlib
import os
from typing import Any

from IPython.core.magic import line_magic, magics_class
from IPython.extensions.storemagic import StoreMagics

_FOLDER = os.path.join("profile_default", "db_of_ranks")


def users_folder() -> str:
    """Return where ranks of this user keep values; read before ranks get a private IPYTHONDIR."""
    directory = os.environ.get("IPYTHONDIR") or "~/.ipython"
    return os.path.join(os.path.expanduser(directory), _FOLDER)


def open_kept(folder: str, rank: int) -> Any:
    """Return IPython's mapping from names to files for one rank; the folder is made."""
    try:
        pickleshare: Any = importlib.import_module("IPython.external.pickleshare")
    except ImportError:  # before it was part of IPython
        pickleshare = importlib.import_module("pickleshare")
    return pickleshare.PickleShareDB(os.path.join(folder, f"rank-{rank}"))


@magics_class
class RankStoreMagics(StoreMagics):
    """IPython's `%store`; what other magics note in `shell.db` stays private to the cluster."""

    shell: Any

    def __init__(self, shell: Any, folder: str) -> None:
        super().__init__(shell=shell)
        self._folder = folder

    @line_magic
    def store(self, parameter_s: str = "") -> None:
        """Keep values of variables in files, list them, or bring them back."""
        shell = self.shell
        usual, shell.db = shell.db, open_kept(self._folder, shell.own_names.get("rank", 0))
        try:
            super().store(parameter_s)
        finally:
            shell.db = usual


RankStoreMagics.store.__doc__ = StoreMagics.store.__doc__
