"""Jobs that Slurm refuses, that end too early or that cannot reach home: the start says why."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_dist.errors import StartFailed, UsageError
from tests.facts import assert_tells
from tests.processes.leftovers import wait_until

from .clusters import driver, wait_for_stage

PORTS = "27310-27319"


# --- refused before anything starts ---


def test_options_that_cannot_be_meant(start):
    told = start.refusal(10, (UsageError, StartFailed), template="/etc/hostname")
    assert "{program_and_args}" in told


def test_a_machine_without_slurm(start, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(Path(sys.executable).parent))
        told = start.refusal(10, UsageError)
    assert_tells(told, "sbatch", "PATH")


# --- refused by Slurm ---


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue": "nowhere"}, "invalid partition specified: nowhere"),
        ({"launcher_args": ["--no-such-option"]}, "unrecognized option '--no-such-option'"),
        ({"launcher_args": ["--nodelist=nodeX"]}, "Invalid node name specified"),
    ],
    ids=["partition", "option", "node"],
)
def test_a_job_that_is_refused_quotes_slurm(start, options, said):
    told = start.refusal(15, **options)
    assert "sbatch" in told
    assert said in told


@pytest.mark.slow
def test_a_slurm_that_does_not_answer(start, slurm, monkeypatch):
    conf = slurm.shared / "elsewhere.conf"
    text = Path(slurm.env["SLURM_CONF"]).read_text()
    conf.write_text(text.replace("SlurmctldPort=", "MessageTimeout=2\nSlurmctldPort=1#"))
    monkeypatch.setenv("SLURM_CONF", str(conf))
    told = start.refusal(30)
    assert "slurm controller" in told


@pytest.mark.slow
def test_a_job_that_can_never_begin_is_given_up_with_what_slurm_says_of_it(start):
    told = start.refusal(20, nodes=3)
    assert "PENDING: PartitionNodeLimit" in told
    assert "for ever" in told
    assert "--nodes" in told


# --- ended before its agents joined ---


@pytest.mark.slow
def test_a_job_that_is_cancelled_while_it_waits(slurm, start, in_background, busy_nodes, within):
    told = []
    future = in_background(start, name="demo", on_progress=told.append)
    wait_for_stage(told, "PENDING: Resources")
    (job,) = slurm.ask("squeue", "--noheader", "--name=jupyter-dist-demo", "--format=%i").split()
    with within(8):
        slurm.scancel(job)
        error = future.exception(20)
    assert isinstance(error, StartFailed)
    assert f"Slurm job {job}" in str(error)
    assert "CANCELLED" in str(error)


@pytest.mark.slow
def test_a_start_that_is_given_up_while_it_waits_cancels_the_job(slurm, start, busy_nodes):
    told = start.refusal(30, timeout_s=12, after=lambda: slurm.scancel(busy_nodes))
    assert "PENDING: Resources" in told
    assert "--timeout" in told


@pytest.mark.slow
def test_a_notebook_that_is_killed_while_the_job_waits_cancels_it(slurm, start, busy_nodes):
    words = driver(name="demo", keep_s=1, timeout_s=30)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as notebook:
        try:
            wait_until(lambda: "jupyter-dist-demo PENDING" in slurm.squeue("%j %T"), 15, "it waits")
        finally:
            notebook.kill()
    slurm.scancel(busy_nodes)
    start.assert_nothing_left(45)


def test_nodes_without_our_package(start):
    told = start.refusal(25, python="/usr/bin/python3")
    assert_tells(told, "module named", "jupyter_dist")
    assert "--python" in told


@pytest.mark.slow
def test_nodes_without_that_python(start):
    told = start.refusal(25, python="/no/such/python")
    assert "/no/such/python" in told
    assert os.strerror(errno.ENOENT) in told


@pytest.mark.slow
def test_a_directory_that_nodes_do_not_see(start, tmp_path):
    folder = tmp_path / "unseen"
    folder.mkdir()
    told = start.refusal(30, job_dir=str(folder))
    assert str(folder) in told
    assert "--job-dir" in told
    assert os.listdir(folder) == []


@pytest.mark.slow
def test_a_script_that_ends_at_once(start, tmp_path):
    template = tmp_path / "mine.sbatch"
    template.write_text("#!/bin/sh\n# {program_and_args}\necho mine does nothing\nexit 7\n")
    told = start.refusal(25, template=str(template))
    assert "mine does" in told
    assert "FAILED" in told


@pytest.mark.slow
def test_nodes_that_cannot_reach_this_machine(slurm, start):
    for host in slurm.names:
        slurm.hosts.block_port(host, PORTS)
    told = start.refusal(40, ports=PORTS)
    assert_tells(told, "no address", "stayed silent", f"port {PORTS[:4]}")
    assert "--interface" in told
