"""A rank without agent and coordinator, for test_parallel_engine.py: orders in, events out, as JSON.

Everything of an engine that runs user code is the real one.
"""

import json
import os
import queue
import sys
import threading

import msgspec

from jupyter_dist.collective.communicator import NoCommunicator
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.recorder import CollectiveRecorder
from jupyter_dist.engine.executor import Executor
from jupyter_dist.engine.frameworks import make_frameworks
from jupyter_dist.engine.meetings import Meetings
from jupyter_dist.engine.namespace import Namespace
from jupyter_dist.engine.outputs import STREAMS, Outputs
from jupyter_dist.engine.parallel_tasks import ParallelTasks
from jupyter_dist.engine.shell import make_shell
from jupyter_dist.engine.surroundings import RankSurroundings
from jupyter_dist.engine.tqdm_bars import watch_tqdm
from jupyter_dist.model.rank import RankInfo
from jupyter_dist.protocol.messages import (
    CellResult,
    JoinController,
    LeaveController,
    RunCell,
)


class Rank:
    """The main thread runs what comes; a thread reads orders, as the link would."""

    def __init__(self, rank, world_size, root):
        self._events = os.fdopen(os.dup(1), "w")
        self._door = threading.Lock()
        for descriptor, name in ((1, "stdout"), (2, "stderr")):
            opened = os.open(f"{root}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(opened, descriptor)
        info = RankInfo(
            rank=rank,
            world_size=world_size,
            local_rank=rank,
            local_world_size=world_size,
            host="here",
            host_rank=0,
            device=None,
        )
        shell = make_shell(f"{root}/ipython")
        shell.warm_up()
        outputs = Outputs({name: f"{root}/{name}" for name in STREAMS})
        outputs.install()
        watch_tqdm(outputs.bars)
        shell.tell_where(outputs.add, root, True)
        recorder = CollectiveRecorder(f"{root}/collectives")
        namespace = Namespace(shell, info)
        namespace.enter_generation(info, NoCommunicator(Group(rank, world_size, 1), "of a test"))
        meetings = Meetings(rank, world_size, self.post)
        surroundings = RankSurroundings(
            info, "127.0.0.1", root, shell, meetings, recorder, self.post, outputs.add
        )
        frameworks = make_frameworks(surroundings, "never")
        parts = (shell, outputs, namespace, meetings, frameworks, recorder)
        self.executor = Executor(rank, *parts)
        self._inbox = queue.SimpleQueue()
        self._cells_waiting = 0
        self.executor.is_cell_waiting = lambda: self._cells_waiting > 0
        self.tasks = ParallelTasks(self.executor, outputs, self.post, self._inbox.put)

    def post(self, message, _frames=()):
        """Tell the test."""
        with self._door:
            self._events.write(msgspec.json.encode(message).decode() + "\n")
            self._events.flush()

    def live(self):
        """Serve until stdin is closed."""
        self.post(LeaveController("born"))
        threading.Thread(target=self._read, daemon=True).start()
        while True:
            self._inbox.get()()

    def _read(self):
        for line in sys.stdin:
            order = json.loads(line)
            match order["kind"]:
                case "join":
                    connection = json.dumps(order["connection"]).encode()
                    self.tasks.order(JoinController(order["id"], connection, self.executor.rank))
                case "leave":
                    self.tasks.order(LeaveController(order["id"]))
                case "cell":
                    self._cells_waiting += 1
                    self._inbox.put(lambda order=order: self._run(order))
                case "interrupt":
                    os.kill(os.getpid(), 2)
                case "look":
                    threads = sorted(thread.name for thread in threading.enumerate())
                    loaded = "ipyparallel" in sys.modules
                    files = len(os.listdir("/proc/self/fd"))
                    with self._door:
                        facts = {"type": "Seen", "threads": threads, "loaded": loaded}
                        self._events.write(json.dumps({**facts, "files": files}) + "\n")
                        self._events.flush()
        self.tasks.leave()
        os._exit(0)

    def _run(self, order):
        self._cells_waiting -= 1
        cell = RunCell(order["id"], 1, order["code"], (self.executor.rank,), 1)
        result = self.executor.run(cell)
        assert isinstance(result, CellResult)
        self.post(result)


if __name__ == "__main__":
    Rank(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]).live()
