"""The job that has the coordinator in it, with its scheduler and its nodes in the hands of the test."""

import os
import threading
from pathlib import Path
from time import time

import msgspec
import pytest
from fakes.batch_job import CANCELLED, PENDING, RUNNING, FakeJob

from jupyter_dist.cluster.spec.host_list import hosts_of_job
from jupyter_dist.errors import ClusterExists, StartFailed
from jupyter_dist.launch.batch import submission
from jupyter_dist.launch.files.connection_file import ConnectionInfo, StartReport
from jupyter_dist.launch.proxy import job as module
from jupyter_dist.launch.proxy.conversation import JobOrder, JobPlace, report_path
from jupyter_dist.launch.proxy.job import CoordinatorJob
from jupyter_dist.model.spec.batch import BatchSpec
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.protocol.credentials import Credentials, KeyPair
from jupyter_dist.version import WIRE

FOUND = ConnectionInfo(
    name="fit",
    clients_address="tcp://127.0.0.1:4711",
    credentials=Credentials("s" * 40, KeyPair("p" * 40, "q" * 40)),
    coordinator_pid=7,
    world_size=2,
    log_path="/there/log",
)
HOST = HostSpec("job", launcher="join", ssh=("ssh", "-v"))


class Nodes:
    """A scheduler that shows what the test lets it, and a first node that reports as told."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.job, self.orders = folder, FakeJob(), []
        self.told, self.over = [], threading.Event()
        self.begun = []
        monkeypatch.setattr(submission, "submit", self._submit)
        monkeypatch.setattr(module, "_LOOK_S", 0.01)

    def start(self, *seen, reports=(), timeout_s=20.0):
        """Start a coordinator in a job that is seen so, and whose first node reports this."""
        self._reports = reports
        for each in seen:
            self.job.show(each)
        spec = ClusterSpec(
            name="fit",
            hosts=hosts_of_job("slurm", 2, HostSpec("", python="/env")),
            batch=BatchSpec(system="slurm", nodes=2, directory=str(self.folder)),
            coordinator=HOST,
            timeout_s=timeout_s,
        )
        self.inside = CoordinatorJob(spec, self.folder, self.over.set)
        self.begun.append(self.inside)
        return self.inside.start(HOST, self.told.append, self.over)

    def _submit(self, order):
        self.orders.append(order)
        self.mode = order.join_path.stat().st_mode & 0o777
        self.order = msgspec.json.decode(order.join_path.read_bytes(), type=JobOrder)
        lines = [JobPlace("node7", "/home/alice/runtime"), *self._reports]
        if self._reports:
            text = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
            draft = Path(f"{order.join_path}.draft")
            draft.write_bytes(text)
            os.replace(draft, report_path(order.join_path))
        return self.job


@pytest.fixture
def nodes(tmp_path, monkeypatch):
    nodes = Nodes(tmp_path, monkeypatch)
    yield nodes
    for _ in range(3):
        nodes.job.show(CANCELLED)
    for inside in nodes.begun:
        inside.end(is_failed=True)


def test_where_the_coordinator_is_comes_from_its_node(nodes):
    host, info = nodes.start(RUNNING, reports=[StartReport(stage="x"), StartReport(FOUND)])
    assert (host.name, host.launcher, host.ssh, host.python) == (
        *("node7", "ssh", ("ssh", "-v"), "/env"),
    )
    assert (info, nodes.inside.runtime_dir) == (FOUND, "/home/alice/runtime")
    (order,) = nodes.orders
    assert order.has_coordinator
    assert (nodes.mode, nodes.order.wire) == (0o600, WIRE)
    assert 0 < nodes.order.good_until_s - time() <= 20
    assert order.join_path.parent.stat().st_mode & 0o777 == 0o700


def test_what_its_node_reports_as_a_problem_names_the_node(nodes):
    with pytest.raises(StartFailed, match=r"node7 of .*: no way"):
        nodes.start(RUNNING, reports=[StartReport(problem="no way")])
    with pytest.raises(ClusterExists):
        nodes.start(RUNNING, reports=[StartReport(problem="x", is_name_taken=True)])


def test_a_job_that_ends_first_is_told_in_the_schedulers_words(nodes):
    with pytest.raises(StartFailed, match="CANCELLED by root"):
        nodes.start(CANCELLED)


def test_one_that_waits_too_long_is_given_up_with_the_words_for_it(nodes):
    with pytest.raises(StartFailed, match=r"PENDING: Resources.*--timeout"):
        nodes.start(PENDING, timeout_s=0.3)
    assert any("PENDING: Resources" in report.stage for report in nodes.told)


def test_one_that_is_given_up_waits_for_nothing(nodes):
    nodes.over.set()
    with pytest.raises(StartFailed):
        nodes.start(RUNNING)
