"""Helper processes as an agent starts them: what they answer, and that none of them is left."""

import errno
import importlib.util
import json
import os
import queue
import socket
import subprocess
import sys

import psutil
import pytest

from jupyter_dist.agent.host import service_processes as services
from jupyter_dist.agent.host.service_processes import Services
from jupyter_dist.protocol import host_agent_pb2 as pb
from tests.facts import assert_tells
from tests.suspending import suspend

from .leftovers import command_of, is_alive, ports_of, wait_until
from .ports import free_port

SOON_S = 30
needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jaxlib") is None, reason="jaxlib is not installed"
)

PARENT = """
import sys
from pathlib import Path
from jupyter_dist.agent.host.service_processes import Services
from jupyter_dist.protocol import host_agent_pb2 as pb

def tell(event):
    print(event.service_started.address, event.service_started.problem, flush=True)

services = Services(Path(sys.argv[1]), tell)
wish = pb.StartService(request_id="s1", service="mpi", world_size=2)
services.obey(pb.AgentCommand(start_service=wish))
sys.stdin.read()
"""


class Host:
    """An agent's helper processes, and what it tells of them."""

    def __init__(self, run_dir):
        self.run_dir = run_dir
        self.told = queue.Queue()
        self.services = Services(run_dir, self.told.put)

    def start(self, service="jax", bind="", number=1):
        wish = pb.StartService(request_id=f"s{number}", service=service, bind=bind, world_size=2)
        self.services.obey(pb.AgentCommand(start_service=wish))

    def answer(self, number=1):
        started = self.told.get(timeout=SOON_S).service_started
        assert started.request_id == f"s{number}"
        return started

    def address(self, service="jax", bind="", number=1):
        self.start(service, bind, number)
        started = self.answer(number)
        assert started.problem == ""
        return started.address

    def problem(self, service="jax", bind="", number=1):
        self.start(service, bind, number)
        started = self.answer(number)
        assert started.address == ""
        return started.problem

    def end(self, number=1):
        end = pb.EndService(request_id=f"s{number}")
        self.services.obey(pb.AgentCommand(end_service=end))


def helpers():
    return [
        child
        for child in psutil.Process().children()
        if is_alive(child) and "jupyter_dist.frameworks.services" in command_of(child)
    ]


def can_connect(address):
    host, _, port = address.partition("/")[0].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SOON_S).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.fixture
def host(tmp_path):
    host = Host(tmp_path)
    yield host
    host.services.close()
    assert helpers() == []


@pytest.fixture
def taken_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@needs_jax
@pytest.mark.parametrize("bind_host", ["127.0.0.1", "::1"])
def test_the_service_of_jax_listens_at_a_free_port_of_the_data_path(host, bind_host):
    host.services.live_like(bind_host, {})
    address = host.address()
    (helper,) = helpers()
    port = int(address.rpartition(":")[2])
    assert ports_of(helper) == [port]
    assert address == (f"[{bind_host}]:{port}" if ":" in bind_host else f"{bind_host}:{port}")
    assert can_connect(address)
    assert os.getsid(helper.pid) == helper.pid


@needs_jax
def test_the_service_of_jax_is_up_within_a_moment(host, within):
    host.address()
    with within(5) as watch:
        host.address(number=2)
    print(f"JAX's service was up after {watch.spell()}")


@needs_jax
def test_the_service_of_jax_listens_where_it_is_told(host):
    bind = f"127.0.0.1:{free_port()}"
    assert host.address(bind=bind) == bind
    assert can_connect(bind)


@needs_jax
def test_a_port_that_is_taken_is_a_sentence_and_no_crash(host, taken_port):
    problem = host.problem(bind=f"127.0.0.1:{taken_port}")
    assert_tells(problem, f"127.0.0.1:{taken_port}", os.strerror(errno.EADDRINUSE))
    assert helpers() == []


@needs_jax
def test_a_port_that_another_service_of_jax_has_is_taken_too(host):
    taken = host.address()
    assert os.strerror(errno.EADDRINUSE) in host.problem(bind=taken, number=2)


@needs_jax
@pytest.mark.parametrize(
    ("bind", "told"),
    [
        ("203.0.113.7:0", os.strerror(errno.EADDRNOTAVAIL)),
        ("127.0.0.1", "host:port"),
        ("no.such.host.invalid:1", "no.such.host.invalid:1"),
    ],
)
def test_an_address_that_is_not_of_this_host_is_a_sentence(host, bind, told):
    assert told in host.problem(bind=bind)


@needs_jax
def test_a_service_lives_in_the_environment_of_the_ranks(host):
    host.services.live_like("127.0.0.1", {"MARK_OF_THE_TEST": "7"})
    host.address()
    (helper,) = helpers()
    assert helper.environ()["MARK_OF_THE_TEST"] == "7"
    assert (host.run_dir / "service-jax-1.log").exists()


def test_a_service_that_nobody_knows_is_a_sentence(host):
    assert "accepted: jax, mpi" in host.problem("slurm")


def test_one_is_ended_when_it_is_told_and_others_stay(host):
    first, second = host.address("mpi"), host.address("mpi", number=2)
    host.end()
    assert "has ended (SIGKILL)" in host.answer().problem
    assert not can_connect(first)
    assert can_connect(second)
    host.end(number=7)


def test_one_that_ends_by_itself_is_told_and_reaped(host):
    host.address("mpi")
    (helper,) = helpers()
    helper.kill()
    assert "has ended (SIGKILL)" in host.answer().problem
    assert not psutil.pid_exists(helper.pid)


def test_one_that_ends_before_it_serves_leaves_its_last_lines(host):
    host.services.live_like("127.0.0.1", {"PYTHONHOME": "/no/such/place"})
    problem = host.problem("mpi")
    assert "(exit code 1)" in problem
    assert "'encodings'" in problem


def test_one_that_does_not_answer_is_ended(host, tmp_path, monkeypatch):
    monkeypatch.setattr(services, "ANSWER_TIMEOUT_S", 0.5)
    (tmp_path / "sitecustomize.py").write_text("import time\ntime.sleep(60)\n")
    host.services.live_like("127.0.0.1", {"PYTHONPATH": str(tmp_path)})
    assert " 0.5 s" in host.problem("mpi")
    wait_until(lambda: helpers() == [], SOON_S, "it is ended")


def test_one_that_cannot_be_started_is_told(host, monkeypatch):
    monkeypatch.setattr(services.sys, "executable", "/no/such/python")
    assert "/no/such/python" in host.problem("mpi")


@pytest.mark.parametrize("is_stopped", [False, True], ids=["serving", "stopped"])
def test_they_end_with_an_agent_that_is_killed(tmp_path, is_stopped):
    command = [sys.executable, "-P", "-c", PARENT, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout.readline().startswith(b"127.0.0.1:")
            (helper,) = psutil.Process(parent.pid).children()
            if is_stopped:
                suspend(helper.pid)
        finally:
            parent.kill()
    wait_until(lambda: not is_alive(helper), SOON_S, "the helper process ends")


def test_a_helper_process_ends_when_its_stdin_is_closed():
    command = [sys.executable, "-P", "-m", "jupyter_dist.frameworks.services"]
    with subprocess.Popen(
        [*command, "mpi", "127.0.0.1:0", "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as helper:
        answer = json.loads(helper.stdout.readline())
        assert can_connect(answer["address"])
        helper.stdin.close()
        assert helper.wait(SOON_S) == 0


def test_a_helper_process_without_a_parent_ends_at_once():
    command = [sys.executable, "-P", "-m", "jupyter_dist.launch.processes.process_life", "1"]
    with subprocess.Popen([*command, "this"], stdin=subprocess.PIPE) as helper:
        assert helper.wait(SOON_S) == 1


def test_a_process_that_says_what_is_no_answer_is_told_of_at_once():
    command = [sys.executable, "-c", "print('a library')"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        answer = services._read_answer(process)
    assert not answer.address
    assert "a library" in answer.problem
