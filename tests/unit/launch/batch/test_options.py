from pathlib import Path

import pytest

from jupyter_dist.launch.batch.options import submit_words, time_limit
from jupyter_dist.launch.batch.order import BatchOrder
from jupyter_dist.model.spec.batch import BatchSpec

OUTPUT = Path("/shared/50%/fit.log")


def order(system="slurm", slots=0, **options):
    return BatchOrder(
        cluster="fit",
        spec=BatchSpec(system=system, nodes=2, **options),
        join_path=Path("/shared/fit.join"),
        slots=slots,
        directory=Path("/shared"),
        log_dir=Path("/private"),
    )


def words(system="slurm", **options):
    return submit_words(order(system, **options), OUTPUT)


ALL = {"job_name": "train", "queue": "gpu", "account": "physics", "time_limit_s": 5400.0}


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        (
            "slurm",
            """sbatch --output=/shared/50%%/fit.log --open-mode=append --job-name=train
            --partition=gpu --account=physics --time=01:30:00""",
        ),
        (
            "pbs",
            "qsub -j oe -o /shared/50%/fit.log -N train -q gpu -A physics -l walltime=01:30:00",
        ),
        (
            "sge",
            "qsub -j y -o /shared/50%/fit.log.$TASK_ID -N train -q gpu -A physics -l h_rt=5400",
        ),
        ("lsf", "bsub -oo /shared/50%/fit.log -J train -q gpu -P physics -W 1:30"),
    ],
)
def test_every_option_is_said_in_each_systems_way(system, expected):
    assert words(system, **ALL) == expected.split()


def test_htcondor_is_told_in_lines_of_a_submit_description():
    options = {**ALL, "queue": ""}
    found = words("htcondor", **options)
    assert found[:3] == ["condor_submit", "-batch-name", "train"]
    lines = found[4::2]
    assert found[3::2] == ["-append"] * len(lines)
    assert lines[:-1] == [
        "output = /shared/50%/fit.log.$(Process)",
        "error = /shared/50%/fit.log.$(Process)",
        "log = /shared/50%/fit.log.events",
        "accounting_group = physics",
    ]
    assert lines[-1] == (
        "periodic_remove = (JobStatus == 1 && NumJobStarts > 0) || "
        "(JobStatus == 2 && (time() - EnteredCurrentStatus) > 5400)"
    )


@pytest.mark.parametrize("system", ["slurm", "pbs", "sge", "lsf", "htcondor"])
def test_a_job_is_named_after_its_cluster(system):
    assert any("jupyter-dist-fit" in word for word in words(system))


@pytest.mark.parametrize("system", ["slurm", "pbs", "sge", "lsf", "htcondor"])
def test_a_template_keeps_the_name_it_gives(system):
    assert not any("jupyter-dist" in word for word in words(system, template="{agent}"))
    named = words(system, template="{agent}", job_name="train")
    assert any("train" in word for word in named)


def test_the_users_arguments_come_last_so_that_they_win():
    found = words(slots=4, arguments=("--cpus-per-task=16", "--gres=gpu:4"))
    assert found[-3:] == ["--cpus-per-task=4", "--cpus-per-task=16", "--gres=gpu:4"]


def test_a_users_template_says_itself_how_many_cores_there_are():
    assert "--cpus-per-task=4" not in words(slots=4, template="{agent}")


def test_arguments_for_htcondor_may_be_lines_or_options():
    found = words("htcondor", arguments=("request_gpus = 1", "-name", "pool", "-append", "a=1"))
    assert found[-6:] == ["-append", "request_gpus = 1", "-name", "pool", "-append", "a=1"]


@pytest.mark.parametrize(
    ("system", "seconds", "text"),
    [
        ("slurm", 90000, "25:00:00"),
        ("slurm", 61.5, "00:01:02"),
        ("lsf", 61, "0:02"),
        ("sge", 60, "60"),
        ("slurm", 0, ""),
    ],
)
def test_time_limits_are_never_shorter_than_asked(system, seconds, text):
    assert time_limit(order(system, time_limit_s=float(seconds))) == text
