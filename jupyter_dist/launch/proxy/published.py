"""The file in which clients of this machine find a coordinator elsewhere."""

import contextlib
import threading

import msgspec

from jupyter_dist.errors import ClusterExists
from jupyter_dist.launch.files.connection_file import (
    TOUCH_INTERVAL_S,
    ConnectionInfo,
    keep_connection,
    path_of,
    write_connection,
)
from jupyter_dist.launch.processes.private_dir import this_machine


class Published:
    """Lies there until closed, and follows the name of this machine.

    A laptop may get another name from each network, and that is a part of the file's name.
    """

    def __init__(self, info: ConnectionInfo) -> None:
        """Write it. Raise ClusterExists where another one has its name."""
        self._info = info
        self._path = path_of(info)
        write_connection(self._path, info, is_new=True)
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep_up, name="publisher", daemon=True)
        self._keeper.start()

    def close(self) -> None:
        """Remove it."""
        self._over.set()
        self._keeper.join()
        self._path.unlink(missing_ok=True)

    def _keep_up(self) -> None:
        while not self._over.wait(TOUCH_INTERVAL_S):
            with contextlib.suppress(OSError):  # as of a full disk; there is a next time
                self.keep()

    def keep(self) -> None:
        """Let its time tell that we live; move it where this machine has got another name."""
        path = path_of(self._info)
        if path != self._path:
            info = msgspec.structs.replace(self._info, machine=this_machine())
            with contextlib.suppress(ClusterExists):
                write_connection(path, info, is_new=True)
                self._path.unlink(missing_ok=True)
                self._info, self._path = info, path
                return
        keep_connection(self._path, self._info)
