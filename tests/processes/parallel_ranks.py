"""Ranks as engines of a real ipyparallel controller, without a cluster around them."""

import contextlib
import json
import queue
import subprocess
import sys
import threading

import ipyparallel

from jupyter_dist.frameworks.ipyparallel import controller, orders
from tests.patience import Stopwatch

from . import parallel_rank

TIMEOUT_S = 20.0


class Told:
    """A child process that is told, and tells, in lines of JSON."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-P", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._lines = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.seen = []

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def say(self, line):
        """Tell it something."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self, kind, timeout_s=TIMEOUT_S):
        """Wait for what it tells of this type; what came before stays in `seen`."""
        watch = Stopwatch()
        while True:
            told = self._next(watch, timeout_s)
            assert told is not None, f"it has ended; told before: {self.seen}"
            if told["type"] == kind:
                return told
            self.seen.append(told)

    def _next(self, watch, timeout_s):
        while True:
            with contextlib.suppress(queue.Empty):
                return self._lines.get(timeout=watch.left_s(timeout_s))
            assert not watch.is_over(timeout_s), f"{timeout_s:g} s; told before: {self.seen}"

    def close(self):
        """End it, which closing its stdin does."""
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self._reader.join()
            self.process.stdout.close()


class Controller(Told):
    """ipyparallel's controller, as the coordinator has it."""

    def __init__(self, root):
        super().__init__("-m", controller.__name__)
        root.mkdir()
        order = orders.Open(directory=str(root))
        self.say(orders.msgspec.json.encode(order).decode())
        serving = self.hear("Serving")
        self.for_clients, self.for_engines = serving["client"], serving["engine"]

    def client(self):
        """Connect to it."""
        return ipyparallel.Client(connection_info=self.for_clients)


class Rank(Told):
    """One rank; its place in the file system is a directory of its own."""

    def __init__(self, rank, world_size, root):
        root.mkdir()
        super().__init__(parallel_rank.__file__, str(rank), str(world_size), str(root))
        self.rank, self.root = rank, root
        self.hear("LeaveController")  # its first word

    def order(self, kind, **facts):
        """Tell it to do something."""
        self.say(json.dumps({"kind": kind, **facts}))

    def join(self, connection, request_id="1"):
        """Become an engine; gives what it answers."""
        self.order("join", id=request_id, connection=connection)
        return self.hear("ControllerJoined")

    def run_cell(self, code, cell_id="cell"):
        """Run a cell to its end."""
        self.order("cell", id=cell_id, code=code)
        return self.hear("CellResult")

    def forget(self):
        """Forget what it has told so far."""
        self.look()
        self.seen.clear()

    def look(self):
        """Give its threads, whether it has loaded ipyparallel, and how many files it has open."""
        self.order("look")
        return self.hear("Seen")


def wait_for_ids(client, ids):
    """Wait until these engines are registered."""
    client.wait_for_engines(len(ids), timeout=TIMEOUT_S, interactive=False)
    assert client.ids == ids
