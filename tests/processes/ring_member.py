"""The program that each rank of a pool runs: it does what it is told until nobody is there."""

import faulthandler
import pickle
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection

import numpy as np
from ring_values import lay_out, make, open_sockets

from jupyter_dist.collective.group import Group
from jupyter_dist.collective.host import HostCommunicator
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.transport import RingTransport
from jupyter_dist.errors import DistError, UsageError


class Member:
    """One rank of any number of communicators; each method is an order that it takes."""

    def __init__(self):
        self.comms = {}
        self._split_off = []
        self._listener = None
        self._sockets_before = open_sockets()

    def listen(self, host="127.0.0.1"):
        """Open the listener of the next communicator; give its address."""
        if self._listener is not None:
            self._listener.close()
        self._listener = bind_listener(host)
        return address_of(self._listener)

    def form(self, name, group, peers, key, timeout_s):
        """Become a member of a communicator."""
        group, listener = Group(*group), self._listener
        self._listener = None
        comm = HostCommunicator(group, RingTransport(group, listener, peers, key))
        comm.timeout_s = timeout_s
        self.comms[name] = comm

    def close(self, *names):
        """Close these communicators; no names: all."""
        for name in names or tuple(self.comms):
            self.comms.pop(name).close()

    def leftovers(self):
        """Sockets and threads that are left."""
        threads = [thread.name for thread in threading.enumerate()]
        return open_sockets() - self._sockets_before, threads

    def run(self, world, steps):
        """Take the steps one after the other; give what became of each.

        What they call "world" is the communicator of that name.
        """
        self.comms["world"] = self.comms[world]
        answers = []
        try:
            for step in steps:
                answers += [answer() for answer in self._take(step)]
        except (DistError, TypeError, ValueError) as error:
            answers.append({"raised": type(error).__name__, "text": str(error)})
        for name in self._split_off:
            self.close(name)
        self._split_off.clear()
        return answers

    def _take(self, step):
        """Do one step; give what tells, after the end of a group, what came of its parts."""
        comm = self.comms[step["on"]]
        match step["do"]:
            case "group":
                with comm.group():
                    return self._take_all(step)
            case "refused":
                is_refused = False
                try:
                    self._take_all(step)
                except (UsageError, TypeError):
                    is_refused = True
                return [lambda: {"refused": is_refused}]
            case "split" if "as" in step:
                child = comm.split(step["color"], step["key"])
                if child is None:
                    return [lambda: {"child": None}]
                self.comms[step["as"]] = child
                self._split_off.append(step["as"])
                return [lambda: {"child": (child.rank, child.size, child.world_ranks)}]
            case method if "raw" in step:
                value = getattr(comm, method)(*step["raw"])
                return [lambda: {"value": value}]
            case _:
                return [self._call(comm, step)]

    def _take_all(self, step):
        parts = [{"on": step["on"]} | part for part in step["steps"]]
        return [answer for part in parts for answer in self._take(part)]

    def _call(self, comm, step):
        """Call an operation; give what tells, after the end of a group, what came of it."""
        given = step["array"]
        if given is not None:
            given = lay_out(make(*given), step["layout"])
        given, out = place(given, comm.rank, step["out"])
        before = None if given is None else given.copy()
        arguments = dict(step["arguments"])
        if out is not None:
            arguments["out"] = out
        room = step.get("room")
        if room is not None:
            room = lay_out(make(*room), step["room_layout"])
            names = {"recv": "array_or_template", "send_recv": "recv_array"}
            arguments[names[step["do"]]] = room
        method = getattr(comm, step["do"])
        result = method(**arguments) if given is None else method(given, **arguments)
        is_alone = out is None or not np.shares_memory(given, out)

        def answer():
            is_kept = given is None or not is_alone or given.tobytes() == before.tobytes()
            is_out = out is None or result is None or result is out
            is_room = room is None or not room.flags.writeable or result is room
            return {"value": result, "is_kept": is_kept, "is_put": is_out and is_room}

        return answer


def place(given, rank, out):
    """Give the input and the `out` of a call; "in place" they share memory."""
    if out is None:
        return given, None
    way, shape = out
    if way == "beside":
        return given, np.full(shape, True, given.dtype)
    if way == "the same":
        return given, given
    if way == "row of the input":
        return given, given[rank, ...]
    assert way == "around the input"
    whole = np.full(shape, True, given.dtype)
    whole[rank, ...] = given
    return whole[rank, ...], whole


def write(pipe, answer):
    """Send an answer; with an older protocol the byte order of arrays would be lost."""
    pipe.send_bytes(pickle.dumps(answer, protocol=5))


def serve(member, pipe):
    """Do what is told on the pipe until it closes."""
    faulthandler.register(signal.SIGUSR1)
    while True:
        try:
            order, *arguments = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return
        try:
            answer = getattr(member, order)(*arguments)
        except Exception:  # noqa: BLE001  (the test fails with it)
            answer = {"failed": traceback.format_exc()}
        write(pipe, answer)


if __name__ == "__main__":
    with Connection(int(sys.argv[1])) as pipe:
        serve(Member(), pipe)
