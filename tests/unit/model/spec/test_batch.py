import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec.batch import (
    BATCH_SYSTEMS,
    BATCH_TITLES,
    ORCHESTRATORS,
    BatchSpec,
    check_batch,
    read_resources,
)


def check(**fields):
    check_batch(BatchSpec(**{"system": "slurm", "nodes": 2, **fields}), 4096)


def test_every_system_has_a_title_and_takes_a_plain_job():
    assert set(BATCH_TITLES) == set(BATCH_SYSTEMS)
    for system in BATCH_SYSTEMS:
        check(system=system)
    assert set(ORCHESTRATORS) < set(BATCH_SYSTEMS)


def test_everything_may_be_said_to_slurm():
    check(
        arguments=("--constraint=gpu",),
        job_name="weather",
        queue="long",
        account="physics",
        time_limit_s=60.0,
        directory="/scratch",
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"system": "torque"}, "'torque'"),
        ({"nodes": 0}, "0 nodes"),
        ({"nodes": 4097}, "4097 nodes"),
        ({"system": "mpi", "queue": "long"}, "queue 'long'"),
        ({"system": "htcondor", "queue": "long"}, "queue 'long'"),
        ({"system": "mpi", "account": "me"}, "account 'me'"),
        ({"system": "mpi", "time_limit_s": 3600.0}, "time limit 3600.0"),
        ({"system": "ray", "queue": "long"}, "queue 'long'"),
        ({"system": "dask", "template": "x"}, "template 'x'"),
        ({"system": "kubernetes", "account": "me"}, "account 'me'"),
        ({"system": "kubernetes", "directory": "/x"}, "job directory '/x'"),
        ({"scheduler": "tcp://a:1"}, "scheduler 'tcp://a:1'"),
        ({"system": "ray", "arguments": ("--gpus",)}, "'--gpus'"),
        ({"system": "ray", "arguments": ("GPU=many",)}, "'GPU=many'"),
        ({"system": "dask", "arguments": ("GPU=-1",)}, "'GPU=-1'"),
        ({"system": "kubernetes", "arguments": ("=8",)}, "'=8'"),
        ({"time_limit_s": 59.0}, "time limit 59 s"),
        ({"time_limit_s": -1.0}, "time limit -1 s"),
        ({"time_limit_s": float("nan")}, "time limit nan s"),
        ({"queue": "a\n#SBATCH --x"}, r"queue 'a\n#SBATCH --x'"),
        ({"job_name": "a\tb"}, r"job name 'a\tb'"),
        ({"arguments": ("--a\nrm",)}, r"launcher argument '--a\nrm'"),
        ({"arguments": ("",)}, "launcher argument ''"),
    ],
)
def test_what_cannot_be_meant_is_refused(fields, said):
    with pytest.raises(UsageError) as raised:
        check(**fields)
    assert said in str(raised.value)


def test_what_nodes_give_is_read_by_name():
    batch = BatchSpec(system="kubernetes", nodes=1, arguments=("nvidia.com/gpu=8", "memory=16Gi"))
    assert read_resources(batch) == {"nvidia.com/gpu": "8", "memory": "16Gi"}
    assert read_resources(BatchSpec(system="ray", nodes=1, arguments=("CPU=0.5",))) == {
        "CPU": "0.5"
    }
