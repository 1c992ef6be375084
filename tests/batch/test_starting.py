"""Slurm starts an agent on each node of one job, and nothing is left when the cluster has stopped."""

import re
from base64 import b64encode

import pytest

from jupyter_dist.launch.files.join_file import read_join_file
from tests.processes.leftovers import command_of, wait_until

from .clusters import SUM, values, wait_for_stage


def where(cluster):
    """The host of each rank, in rank order."""
    places = {
        engine.rank: host.name for host in cluster.topology().hosts for engine in host.engines
    }
    return [places[rank] for rank in sorted(places)]


def test_ranks_on_two_nodes_add_up_and_nothing_is_left(slurm, start):
    cluster = start()
    assert values(cluster.run(SUM)) == ["10.0"] * 4
    assert where(cluster) == ["nodeA", "nodeA", "nodeB", "nodeB"]
    seats = values(cluster.run("(local_rank, local_world_size)"))
    assert seats == ["(0, 2)", "(1, 2)"] * 2
    names = values(cluster.run("import socket; socket.gethostname()"))
    assert [name.strip("'") for name in names] == where(cluster)
    cluster.stop()
    start.assert_nothing_left(5)


def test_one_job_has_one_agent_on_each_node_and_its_files_where_they_were_asked_for(slurm, start):
    job_dir = slurm.shared / "jobs"
    job_dir.mkdir()
    cluster = start(name="demo", job_dir=str(job_dir), time_limit_s=7200.0)
    assert slurm.squeue("%j %T %D") == ["jupyter-dist-demo RUNNING 2"]
    for host in slurm.names:
        agents = [
            process
            for process in slurm.hosts.processes(host)
            if "jupyter_dist.agent" in command_of(process)
        ]
        assert len(agents) == 1, agents
    assert list(job_dir.iterdir())
    text = str(cluster.status())
    job = slurm.only_job()
    assert re.search(rf"Slurm job {job}, RUNNING, ends in (1 h 59 min|2 h)", text), text
    cluster.stop()
    assert list(job_dir.iterdir()) == []


@pytest.mark.slow
def test_what_is_asked_of_slurm_reaches_it(slurm, start):
    start(
        nodes=1,
        queue="main",
        job_name="my work",
        time_limit_s=5400.0,
        launcher_args=["--comment=of mine", "--nodelist=nodeB"],
    )
    job = slurm.job(slurm.only_job())
    assert slurm.squeue("%j, %P, %l, %N") == ["my work, main, 1:30:00, nodeB"]
    assert job["Comment"] == "of"  # up to the blank, see SlurmLab.job


@pytest.mark.slow
def test_a_script_of_the_users_own_is_used(slurm, start, tmp_path):
    template = tmp_path / "mine.sbatch"
    template.write_text(
        "#!/bin/sh\n"
        "#SBATCH --nodes={nodes}\n"
        "#SBATCH --ntasks-per-node=1\n"
        "#SBATCH --job-name=made-by-me\n"
        "#SBATCH --output=/dev/null\n"
        "export OF_MINE=yes\n"
        "srun {program_and_args}\n"
    )
    cluster = start(template=str(template))
    assert slurm.squeue("%j") == ["made-by-me"]
    assert values(cluster.run("import os; os.environ['OF_MINE']")) == ["'yes'"] * 4
    assert values(cluster.run(SUM)) == ["10.0"] * 4


@pytest.mark.slow
def test_the_progress_says_what_slurm_says_while_the_job_waits(
    slurm, start, in_background, busy_nodes
):
    told = []
    future = in_background(start, on_progress=told.append)
    words = wait_for_stage(told, "PENDING: Resources")
    assert re.search(r"Slurm job \d+ .*PENDING: Resources", words), words
    slurm.scancel(busy_nodes)
    assert values(future.result(40).run(SUM)) == ["10.0"] * 4


@pytest.mark.slow
def test_keys_are_in_a_file_of_the_owner_alone_and_nowhere_else(
    slurm, start, in_background, busy_nodes
):
    job_dir = slurm.shared / "jobs"
    job_dir.mkdir(mode=0o755)
    told = []
    future = in_background(start, name="demo", job_dir=str(job_dir), on_progress=told.append)
    wait_for_stage(told, "PENDING")
    (joining,) = job_dir.glob("*/*.join")
    assert joining.stat().st_mode & 0o777 == 0o600
    key = b64encode(read_join_file(joining).private_key).decode()
    assert key in joining.read_text()
    (job,) = slurm.ask("squeue", "--noheader", "--name=jupyter-dist-demo", "--format=%i").split()
    script = slurm.ask("scontrol", "write", "batch_script", job, "-")
    assert ".agent.sh" in script
    assert key not in script
    assert joining.parent.stat().st_mode & 0o777 == 0o700
    others = [path for path in joining.parent.iterdir() if path != joining]
    assert not [path for path in others if key in path.read_text()]
    slurm.scancel(busy_nodes)
    future.result(40)
    wait_until(lambda: not joining.exists(), 3, "the join file is gone")
    for host in slurm.names:
        commands = [command_of(process) for process in slurm.hosts.processes(host)]
        assert any("--join" in words for words in commands)
        assert not [words for words in commands if key in " ".join(words)]


@pytest.mark.slow
def test_clusters_of_two_jobs_do_not_disturb_each_other(slurm, start):
    first, second = start(name="first", slots=1), start(name="second", slots=1)
    assert sorted(slurm.squeue("%j %T")) == [
        "jupyter-dist-first RUNNING",
        "jupyter-dist-second RUNNING",
    ]
    first.stop()
    assert slurm.squeue("%j %T") == ["jupyter-dist-second RUNNING"]
    assert values(second.run("rank")) == ["0", "1"]
