import ast
import os
import re
import socket
import sys

import msgspec
import pytest

from jupyter_dist.errors import StartFailed, UsageError
from jupyter_dist.launch.sealing import Readiness
from jupyter_dist.launch.workers import placement
from jupyter_dist.launch.workers.on_worker import own_environment
from jupyter_dist.launch.workers.placement import (
    BootstrapReply,
    WorkerKind,
    WorkerLocation,
    check_pythons,
    describe_failures,
    describe_silence,
    plan_bootstraps,
    read_readiness,
    write_call,
)
from jupyter_dist.version import WIRE, __version__

ENGINES = WorkerKind("engine", "ipyparallel", "client.queue_status() tells what they do")


def site(hostname="a", machine="", python=(3, 12), visible=None):
    return WorkerLocation(
        hostname, machine or f"id of {hostname}", python, "/env/bin/python", visible
    )


def bootstrap(hostname="a"):
    (found,) = plan_bootstraps({3: site(hostname)}, None)
    return found


@pytest.fixture
def no_module():
    """The module that a call makes where it arrives; it is gone in the end."""
    yield
    sys.modules.pop(placement._MODULE, None)


def test_a_call_is_an_expression_that_answers_for_itself(no_module):
    answer = write_call("look", {})()
    assert answer["hostname"] == socket.gethostname()
    assert answer["python"] == list(sys.version_info[:2])
    assert msgspec.convert(answer, WorkerLocation).executable == sys.executable


def test_calls_remember_what_was_started(no_module):
    write_call("look", {})()
    sys.modules[placement._MODULE].started["token"] = "kept"
    write_call("look", {})()
    assert sys.modules[placement._MODULE].started == {"token": "kept"}


def test_arguments_arrive_as_they_were(no_module):
    answer = write_call("hand_over", {"token": "'\"\\{", "ticket": "x", "patience_s": 0.5})()
    assert answer["is_good"] is False


def test_the_text_is_read_by_older_pythons_and_needs_nothing_of_ours():
    tree = ast.parse(placement._SOURCE, feature_version=(3, 8))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }
    assert imported <= sys.stdlib_module_names


def test_ranks_find_nothing_of_the_job_that_an_engine_is_in(monkeypatch):
    for name in ("PMI_RANK", "OMPI_COMM_WORLD_SIZE", "IPP_CONNECTION_INFO", "PMIX_RANK"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    monkeypatch.setenv("MINE", "kept")
    found = own_environment(None)
    assert found == {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PMI", "OMPI_", "IPP_", "CUDA_VISIBLE"))
    }
    assert found["MINE"] == "kept"
    assert own_environment("0,1")["CUDA_VISIBLE_DEVICES"] == "0,1"


@pytest.mark.parametrize(
    ("sites", "slots", "chosen"),
    [
        # The first engine of each host, with as many ranks as engines, or as were asked for.
        ({0: site("a"), 1: site("b"), 2: site("a"), 4: site("b")}, None, [(0, 2), (1, 2)]),
        ({0: site("a"), 1: site("b"), 2: site("b")}, 8, [(0, 8), (1, 8)]),
        # Hosts are told apart by name and machine.
        ({0: site("node", "x"), 1: site("node", "y")}, None, [(0, 1), (1, 1)]),
        ({0: site("a", "x"), 1: site("b", "x")}, None, [(0, 1), (1, 1)]),
        ({"tcp://b": site("b"), "tcp://a": site("a")}, 2, [("tcp://b", 2), ("tcp://a", 2)]),
    ],
)
def test_one_engine_of_each_host_is_chosen(sites, slots, chosen):
    found = plan_bootstraps(sites, slots)
    assert [(each.worker, each.slots) for each in found] == chosen
    assert [each.site for each in found] == [sites[engine] for engine, _ in chosen]
    assert found[0].token != found[1].token


@pytest.mark.parametrize(
    ("each", "all_of_them"),
    [
        ([None, None], None),
        (["0", "1"], "0,1"),
        (["1,0", "0", "3"], "1,0,3"),
        (["0", None], None),
        (["", ""], ""),
        (["GPU-7", "GPU-7"], "GPU-7"),
    ],
)
def test_ranks_may_see_what_any_engine_of_their_host_sees(each, all_of_them):
    sites = {engine: site(visible=visible) for engine, visible in enumerate(each)}
    (found,) = plan_bootstraps(sites, None)
    assert found.visible == all_of_them


@pytest.mark.parametrize(
    ("minors", "told"),
    [
        ((12, 11, 12), r"^engine 1 .* 3\.11; engines 0,2 .* 3\.12\. "),
        ((9, 9), r"^engines 0-1 .* 3\.9\. .* 3\.11 "),
    ],
)
def test_different_pythons_and_old_ones_are_named(minors, told):
    with pytest.raises(UsageError, match=told):
        check_pythons(
            {engine: site(python=(3, minor)) for engine, minor in enumerate(minors)}, ENGINES
        )
    check_pythons({0: site(python=(3, 11)), 1: site("b", python=(3, 11))}, ENGINES)


def test_another_version_is_refused_naming_host_and_both():
    line = msgspec.json.encode(Readiness("jupyter-dist/0", "0.0.1", b"key")).decode()
    both = (
        rf"^host a .* 0\.0\.1, .*{re.escape(__version__)}: .*{re.escape(WIRE)}, .*jupyter-dist/0\. "
    )
    with pytest.raises(StartFailed, match=both):
        read_readiness(bootstrap(), BootstrapReply(is_good=True, line=line))


def test_what_is_no_agent_is_quoted():
    with pytest.raises(StartFailed, match=r"^host a: .*'hello'"):
        read_readiness(bootstrap(), BootstrapReply(is_good=True, line="hello"))


def test_a_host_without_the_package_says_how_to_install_it():
    said = "/env/bin/python: Error while finding module (No module named 'jupyter_dist')"
    first, *rest = describe_failures(
        [(bootstrap(), BootstrapReply(is_good=False, status=1, said=f"{said}\n"))], ENGINES
    ).splitlines()
    assert first.startswith("host a: ")
    install = first.rpartition(": ")[2].split()
    assert (install[0], install[-1]) == ("/env/bin/python", f"jupyter-dist=={__version__}")
    assert rest == ["--- a said last ---", said]


def test_every_host_that_fails_is_named_with_its_last_words():
    failures = [
        (bootstrap("a"), BootstrapReply(is_good=False, status=94, said="lost\n\n")),
        (bootstrap("b"), BootstrapReply(is_good=False)),
        (bootstrap("c"), RuntimeError("Engine 3 died")),
    ]
    count, a, b, c, *last = describe_failures(failures, ENGINES).splitlines()
    assert [count[:2], a[:8], b[:8], c[:8]] == ["3 ", "host a: ", "host b: ", "host c: "]
    assert " 94 " in a
    assert c.endswith("Engine 3 died")
    assert last == ["--- a said last ---", "lost"]


def test_engines_that_do_not_answer_are_named_with_what_to_do():
    told = describe_silence([1, 2, 5], 20.0, ENGINES)
    assert told.startswith("engines 1-2,5 ")
    assert " 20 s: " in told
    assert "client.queue_status()" in told
    assert describe_silence([1], 20.0, ENGINES).startswith("engine 1 ")


def test_workers_are_called_by_their_numbers_or_names():
    assert WorkerKind().name([2, 0, 1]) == "workers 0-2"
    assert WorkerKind().name(["tcp://a:1"]) == "worker tcp://a:1"
    assert describe_silence(["x"], 2.0, WorkerKind()).startswith("worker x has ")


def test_nodes_with_one_hostname_get_names_that_differ():
    sites = {number: site("same") for number in range(3)}
    found = plan_bootstraps(sites, 1, lambda worker, _: worker)
    assert [each.name for each in found] == ["same", "same-2", "same-3"]
