"""Connections that are reset, while all processes and the machine are fine: nothing is lost."""

import os
import shutil
import socket
import subprocess

import pytest

from tests.facts import assert_tells

from .conftest import SharedCluster
from .leftovers import agents_of, coordinator_of, engines_of, ports_of, wait_until
from .listener import Listener, begin
from .results import values

SEVERAL_RESETS = 5
PRINTS = "import time\nprint('here')\nfor i in range(30):\n    print(i)\n    time.sleep(0.1)\nkept"


def reset(port):
    """Have the kernel reset all connections of a listening port of this machine."""
    command = ["ss", "-K", "-t", "-H", "state", "established"]
    subprocess.run(
        [*command, f"( sport = :{port} or dport = :{port} )"],
        check=True,
        capture_output=True,
        timeout=10,
    )


def can_reset():
    """Return whether ss may, and this kernel does, end a connection: tried with one."""
    if os.geteuid() != 0 or shutil.which("ss") is None:
        return False
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as one:
            try:
                reset(port)
                one.settimeout(1)
                return one.recv(1) == b""
            except TimeoutError:
                return False
            except (OSError, subprocess.SubprocessError):
                return True


pytestmark = pytest.mark.skipif(not can_reset(), reason="root and `ss -K` reset connections")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The cluster of this module: all come by TCP, as paths of Unix sockets would be too long."""
    shared = SharedCluster(tmp_path_factory.mktemp("long" * 25))
    yield shared
    shared.close()


def clients_port_of(cluster):
    assert not cluster._connection.clients_path
    return int(cluster._connection.clients_address.rpartition(":")[2])


def test_resets_between_cells_cost_no_rank_and_no_cell(four, within):
    pids = values(four.run("import os\nkept = os.getpid()\nkept"))
    for _ in range(SEVERAL_RESETS):
        for port in ports_of(coordinator_of(four)):
            reset(port)
            with within(5):
                assert values(four.run("kept")) == pids


def test_resets_while_a_cell_runs_lose_none_of_its_lines_and_double_none(
    four, in_background, within
):
    pids = values(four.run("import os\nkept = os.getpid()\nkept"))
    listener = Listener()
    cell = begin(in_background, four, PRINTS, listener)
    for _ in range(SEVERAL_RESETS):
        for port in ports_of(coordinator_of(four)):
            reset(port)
        wait_until(lambda: set(four.status().ranks.values()) == {"busy"}, 5, "all go on")
    with within(15):
        result = cell.result(20)
    assert values(result) == pids
    lines = "".join(["here\n", *(f"{i}\n" for i in range(30))])
    assert [result[rank].stdout for rank in range(4)] == [lines] * 4
    assert listener.text == dict.fromkeys(range(4), lines)
    assert sorted(each.rank for each in listener.finished) == list(range(4))


def test_resets_of_a_clients_connection_lose_and_double_no_note(
    four, in_background, within, tmp_path
):
    listener = Listener()
    go = tmp_path / "go"
    code = (
        "import os, time\n"
        f"while not rank and not os.path.exists({str(go)!r}): time.sleep(0.005)\n"
        "comm.barrier()"
    )
    cell = in_background(four.run, code, watcher=listener)
    for _ in range(3):
        reset(clients_port_of(four))
    listener.wait_for_note("wait", within_s=15)
    for _ in range(3):
        reset(clients_port_of(four))
    go.touch()
    with within(15):
        assert cell.result(20).ok
    assert len(set(listener.notes)) == len(listener.notes)
    assert sorted(each.rank for each in listener.finished) == list(range(4))


def test_each_cell_runs_once_however_often_its_clients_connection_is_reset(
    four, in_background, within
):
    values(four.run("count = 0"))
    for number in range(1, 11):
        cell = in_background(four.run, "count += 1\ncount")
        reset(clients_port_of(four))
        with within(10):
            assert values(cell.result(10)) == [str(number)] * 4


@pytest.mark.slow
def test_large_objects_survive_resets_on_their_way(four, in_background, within):
    for _ in range(2):
        data = os.urandom(64 << 20)
        with within(30):
            push = in_background(four.push, {"data": data})
            for port in ports_of(coordinator_of(four)):
                reset(port)
            push.result(30)
            pull = in_background(four.pull, "data")
            for port in ports_of(coordinator_of(four)):
                reset(port)
            assert pull.result(30)[1] == data


REDUCE_ON = """
import time, numpy as np
print("here")
for number in range(3000):
    comm.all_reduce(np.ones(1000))
    time.sleep(0.002)
"""


def test_a_reset_between_ranks_is_told_as_one_and_the_next_cell_has_a_new_communicator(
    four, in_background, within
):
    pids = values(four.run("import os\nkept = os.getpid()\nkept"))
    cell = begin(in_background, four, REDUCE_ON)
    for port in ports_of(engines_of(four)[1]):
        reset(port)
    with within(10):
        result = cell.result(20)
    raised = [each.error for each in result if each.status == "raised"]
    assert raised
    assert {error.ename for error in raised} == {"CommunicatorError"}
    for each in result:
        text = str(each.error)
        print(each.rank, each.status, text)
        assert_tells(text, "rank 1 (localhost)", "was reset")
        assert "both ranks" in text
        assert "closed" not in text
    assert values(four.run("kept")) == pids
    with within(10):
        sums = "import numpy as np\nfloat(comm.all_reduce(np.ones(3))[0])"
        assert values(four.run(sums)) == ["4.0"] * 4


def test_an_agent_that_is_killed_is_still_told_at_once(sweep, start, within):
    cluster = start("localhost:1")
    (agent,) = agents_of(cluster)
    for port in ports_of(coordinator_of(cluster)):
        reset(port)
    values(cluster.run("1"))
    with within(1):
        agent.kill()
        wait_until(lambda: cluster.status().ranks == {0: "lost"}, 5, "its rank is lost")
