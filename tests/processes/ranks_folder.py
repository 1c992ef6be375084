"""A folder as the control channel between ranks of one host, for tests without a coordinator."""

import threading
import time
from pathlib import Path

from jupyter_dist.errors import CollectiveTimeout


class Folder:
    """Where ranks of one host find each other's values; a Control without meetings."""

    def __init__(self, path):
        self.path = Path(path)

    def place(self, key):
        return self.path / key.replace("/", "_")

    def put(self, key, value):
        part = self.path / f"part of {threading.get_native_id()}"
        part.write_bytes(value)
        part.replace(self.place(key))

    def get(self, key, timeout_s):
        ends_at = time.monotonic() + timeout_s
        while not self.place(key).exists():
            if time.monotonic() > ends_at:
                raise CollectiveTimeout(f"nobody has told {key} within {timeout_s:g} s")
            time.sleep(0.002)
        return self.place(key).read_bytes()
