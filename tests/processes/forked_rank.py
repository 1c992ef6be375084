"""A process that has imported once what rank programs need, and becomes each rank by a fork.

    python forked_rank.py SOCKET PARENT_PID PROGRAM MODULE…

imports the program (a file beside this one that has `run_rank`) and the modules. Then it takes
orders from the socket: ["fork", arguments] comes with what is to be stdin and stdout of the new
rank, ["wait", pid] asks how one ended. It only imports before a fork, so that no thread exists.
"""

import importlib
import json
import os
import random
import socket
import sys
import threading
from pathlib import Path

import numpy as np

from jupyter_dist.launch.processes.process_life import die_with_parent

MOST_BYTES = 65536


def assert_one_thread():
    """Fail where a fork would lose threads."""
    names = [task.joinpath("comm").read_text() for task in Path("/proc/self/task").iterdir()]
    assert len(names) == threading.active_count() == 1, f"threads before a fork: {names}"


def become_rank(server_pid, stdin, stdout):
    """Be what a new interpreter would be: one's own process group, files and random numbers."""
    die_with_parent(server_pid)
    os.setsid()
    for given, wanted in ((stdin, 0), (stdout, 1)):
        os.dup2(given, wanted)
        os.close(given)
    random.seed()
    np.random.seed()


def serve(orders):
    """Fork ranks until nobody asks any more; in each rank return its arguments."""
    server_pid = os.getpid()
    while True:
        order, descriptors, _flags, _address = socket.recv_fds(orders, MOST_BYTES, 2)
        if not order:
            return None  # ranks that live end with this process
        name, what = json.loads(order)
        if name == "wait":
            _pid, status = os.waitpid(what, 0)
            orders.sendall(json.dumps(os.waitstatus_to_exitcode(status)).encode())
            continue
        assert_one_thread()
        pid = os.fork()
        if pid == 0:
            become_rank(server_pid, *descriptors)
            return what
        for descriptor in descriptors:
            os.close(descriptor)
        # Its handle stays valid when its number belongs to someone else.
        handle = os.pidfd_open(pid)
        socket.send_fds(orders, [json.dumps(pid).encode()], [handle])
        os.close(handle)


def main(descriptor, parent_pid, program, *modules):
    die_with_parent(int(parent_pid))
    for module in modules:
        importlib.import_module(module)
    run_rank = importlib.import_module(program).run_rank
    with socket.socket(fileno=int(descriptor)) as orders:
        orders.sendall(b"ready")
        arguments = serve(orders)
    if arguments is not None:
        run_rank(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
