"""Clients of the Debug Adapter Protocol, at the one address of a cluster."""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from jupyter_dist.cli.jobs.run import INTERRUPTED
from jupyter_dist.errors import CellFailed

from .dap_client import DapClient
from .leftovers import wait_until

CELL = """def add(here):
    total = here + 1
    return total
breakpoint()
mine = add(rank)
both = float(comm.all_reduce(__import__('numpy').array([mine]))[0])
print(both)"""
TRACES = """import sys, threading
def count_calls():
    calls = 0
    def note(*_):
        nonlocal calls
        calls += 1
    sys.setprofile(note)
    for _ in range(50): (lambda: "a".upper())()
    sys.setprofile(None)
    return calls
found = (
    count_calls(), sys.gettrace(), threading.gettrace(), sys.breakpointhook.__module__,
    sorted(each.name for each in threading.enumerate() if each.name != "observer"),
    [sys.monitoring.get_tool(each) for each in range(6)] if hasattr(sys, "monitoring") else [],
)"""
WATCHED = "(m := __import__('sys').monitoring).get_tool(m.DEBUGGER_ID)"


@pytest.fixture
def two(start):
    return start("localhost:2")


@pytest.fixture
def address(two):
    made = two.listen_for_debuggers()
    yield made
    made.close()


@pytest.fixture
def connect(address):
    clients = []

    def one():
        clients.append(DapClient(address))
        return clients[-1]

    yield one
    for client in clients:
        client.close()


def look(cluster):
    cluster.run(TRACES).raise_first()
    return cluster.pull("found")


def test_ranks_are_sessions_that_stop_step_and_leave_nothing(two, address, connect):
    before = look(two)
    root = connect()
    root.attach(token=address.token)
    starts = [root.hear("startDebugging")["arguments"]["configuration"] for _ in range(2)]
    assert [(each["name"], each["rank"]) for each in starts] == [("rank 0", 0), ("rank 1", 1)]
    ranks = [connect() for _ in starts]
    for client, configuration in zip(ranks, starts, strict=True):
        assert client.attach(token=configuration["token"], rank=configuration["rank"])["success"]
    running = two.run_in_background(CELL, label=7)
    (_, (top, *_)), (thread, (other, *_)) = (client.stopped() for client in ranks)
    assert (top["line"], top["source"]["name"], other["line"]) == (4, "In[7]", 4)
    body = ranks[1].ask("source", source=other["source"], sourceReference=0)
    assert body["content"].splitlines() == CELL.splitlines()

    set_one = ranks[1].ask("setBreakpoints", source=other["source"], breakpoints=[{"line": 3}])
    assert set_one["breakpoints"][0]["verified"]
    ranks[0].ask("continue", threadId=1)
    told = "rank 1, which is in the debugger"
    wait_until(lambda: told in two.explain(), 30, told)
    ranks[1].ask("continue", threadId=thread)
    _, (within, *_) = ranks[1].stopped()
    assert (within["name"], ranks[1].evaluate("total", within["id"])) == ("add", "2")
    lines = [6]
    if sys.version_info >= (3, 12):
        assert ranks[1].evaluate(WATCHED, within["id"]) == "'pydevd'"
        lines = [5, 6]  # by sys.monitoring the end of a function is a stop in its caller
    for line in lines:
        ranks[1].ask("next", threadId=thread)
        assert ranks[1].stopped()[1][0]["line"] == line
    for client in ranks:
        client.leave()
    assert [each.stdout for each in running.wait(30)] == ["3.0\n", "3.0\n"]
    assert look(two) == before


def test_a_stranger_is_told_nothing(two, address, connect):
    for arguments in ({}, {"token": "guessed"}, {"token": None}, {"token": address.token[:-1]}):
        stranger = connect()
        answer = stranger.attach(**arguments)
        assert not answer["success"]
        assert two.name not in str(answer)
        stranger.hear("end")
    for rank in (2, -1, True, "1", None):
        answer = connect().attach(token=address.token, rank=rank)
        assert "ranks 0, 1" in answer["message"]
    early = connect()
    early.say("setBreakpoints", token=address.token)
    assert not early.hear("setBreakpoints")["success"]
    early.hear("end")
    assert two.run("rank").ok


@pytest.mark.slow
def test_a_client_of_a_killed_rank_is_told_and_a_second_client_is_refused(two, address, connect):
    client, second = connect(), connect()
    client.attach(token=address.token, rank=1)
    running = two.run_in_background("breakpoint()", [1])
    client.stopped()
    assert "has a debugger already" in second.attach(token=address.token, rank=1)["message"]
    second.hear("end")
    os.kill(two.topology().engines[1].pid, signal.SIGKILL)
    assert "rank 1 is lost" in client.hear("output")["body"]["output"]
    client.hear("terminated")
    with pytest.raises(CellFailed):
        running.wait(30)


@pytest.mark.slow
def test_a_stopped_rank_goes_on_when_its_client_has_gone(two, address, connect):
    client = connect()
    client.attach(token=address.token, rank=1)
    running = two.run_in_background("breakpoint()\nprint('on')", [1])
    client.stopped()
    client.vanish()
    assert running.wait(30)[0].stdout == "on\n"
    for _ in range(3):
        again = connect()
        assert again.attach(token=address.token, rank=1)["success"]
        again.ask("disconnect", restart=True)


def test_an_interrupt_ends_the_cell_of_a_stopped_rank(two, address, connect):
    client = connect()
    client.attach(token=address.token, rank=1)
    running = two.run_in_background("breakpoint()\nprint('on')", [1])
    client.stopped()
    two.interrupt()
    with pytest.raises(CellFailed):
        running.wait(30)
    assert two.run("rank").ok


def test_a_pause_of_an_idle_rank_stops_its_next_cell(two, address, connect):
    client = connect()
    client.attach(token=address.token, rank=1)
    client.ask("pause", threadId=1)
    running = two.run_in_background("x = 1\nprint(x)", [1], label=3)
    thread, frames = client.stopped()
    assert frames[0]["source"]["name"] == "In[3]"
    client.ask("continue", threadId=thread)
    assert running.wait(30)[0].stdout == "1\n"


def test_a_rank_without_debugpy_names_what_to_install(two, address, connect):
    two.run("import sys; sys.modules['debugpy'] = None", [1]).raise_first()
    answer = connect().attach(token=address.token, rank=1)
    assert "jupyter-dist[debug]" in answer["message"]
    assert two.run("rank").ok


def test_the_command_ends_with_an_interrupt_and_ranks_go_on(two):
    command = [sys.executable, "-P", "-m", "jupyter_dist.cli", "debug", two.name, "--listen"]
    with subprocess.Popen([*command, "--ranks", "1"], stdout=subprocess.PIPE, text=True) as process:
        lines = iter(process.stdout.readline, "}\n")
        shown = json.loads("".join([*lines, "}"]).partition("launch.json:\n")[2])
        client = DapClient(SimpleNamespace(**shown["connect"]))
        assert client.attach(token=shown["token"])["success"]  # of one rank it is the session
        running = two.run_in_background("breakpoint()\nprint(rank)", [1])
        client.stopped()
        process.send_signal(signal.SIGINT)
        assert "has ended" in client.hear("output")["body"]["output"]
        client.hear("terminated")
        client.close()
        assert process.wait(30) == INTERRUPTED
    assert running.wait(30)[0].stdout == "1\n"
