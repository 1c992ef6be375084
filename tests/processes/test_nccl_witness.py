"""What NCCL would say of ranks that hang, when one of them says it in NCCL's place."""

import socket

import pytest

from .listener import Listener

PLAYS_NCCL = """\
import json, os, socket, threading
pids = comm.all_gather_object(os.getpid())

def member(rank):
    return {"rank": rank, "host": "127.0.0.1", "pid": pids[rank],
            "status": {"init_state": 0, "async_error": 0, "finalize_called": False,
                       "destroy_flag": False, "abort_flag": False},
            "collective_counts": {"AllReduce": 7 - rank, "Broadcast": 2}}

def answer(connection):
    said = {"communicators": [{"hash": "0x1", "size": 2, "ranks": [member(0), member(1)]}]}
    with connection, connection.makefile("r") as lines:
        for line in lines:
            if line.startswith("VERBOSE"):
                connection.sendall(json.dumps(said).encode())
                break
            connection.sendall(b"SERVER PROTOCOL 2\\n" if line.startswith("CLIENT") else b"OK\\n")

def serve(listening):
    while True:
        answer(listening.accept()[0])

if rank == 0:
    host, port = os.environ["NCCL_RAS_ADDR"].split(":")
    listening = socket.create_server((host, int(port)))
    threading.Thread(target=serve, args=(listening,), daemon=True).start()
"""

HANGS = """\
import os, time
if rank == 0:
    comm.barrier()
while not os.path.exists({gate!r}):
    time.sleep(0.02)
if rank == 1:
    comm.barrier()
"""


@pytest.fixture
def address():
    """Give a port that was free a moment ago, at an address that nobody else uses."""
    with socket.socket() as probe:
        probe.bind(("127.77.0.1", 0))
        return f"127.77.0.1:{probe.getsockname()[1]}"


def test_what_nccl_says_follows_the_verdict_of_a_cell(start, address, tmp_path, in_background):
    cluster = start("localhost:2", env={"NCCL_RAS_ADDR": address})
    cluster.run(PLAYS_NCCL).raise_first()
    listener, gate = Listener(), tmp_path / "gate"
    cell = in_background(cluster.run, HANGS.format(gate=str(gate)), watcher=listener)
    try:
        listener.wait_for_note("NCCL says", within_s=20.0)
    finally:
        gate.touch()
        result = cell.result(15)
    assert result.ok
    told = next(note for note in listener.notes if "NCCL says" in note)
    assert told.startswith("rank 0 waits")
    assert told.endswith("; NCCL says: rank 0 has launched AllReduce 7 times, rank 1 6 times")
