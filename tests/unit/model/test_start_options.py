import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.command_options import OptionParser
from jupyter_dist.model.start_options import add_start_options, start_arguments


def arguments(line):
    parser = OptionParser(prog="%dist_start", example="%dist_start -n 4")
    add_start_options(parser)
    return start_arguments(parser.read(line))


def test_what_was_not_said_is_no_argument():
    assert arguments("") == {}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--jax", {"jax": "start"}),
        ("--no-jax", {"jax": "never"}),
        ("--devices-per-engine 2", {"devices_per_engine": "2"}),
        ("--devices-per-engine all", {"devices_per_engine": "all"}),
        ("--cpu-devices 1", {"cpu_devices": 1}),
        ("--cpu-devices 1024", {"cpu_devices": 1024}),
        ("--ports 47000-47009", {"ports": "47000-47009"}),
        ("--on-loss heal", {"on_loss": "heal"}),
        ("--suspect-after 5", {"suspect_after_s": 5.0}),
        ("--lost-after 1m", {"lost_after_s": 60.0}),
        ("--sample-interval 0.5", {"sample_interval_s": 0.5}),
        ("--save-on-preempt kept", {"save_on_preempt": "kept"}),
        ("--preempt-command 'test -e /x'", {"preempt_command": "test -e /x"}),
        ("-n 2 --oversubscribe", {"hosts": "localhost:2", "oversubscribe": True}),
    ],
)
def test_options_become_arguments_of_a_start(line, said):
    assert arguments(line) == said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--jax --no-jax", "not allowed with"),
        ("--cpu-devices 0", "'0' is not a number of devices, 1-1024"),
        ("--cpu-devices 1025", "'1025' is not a number of devices"),
        ("--cpu-devices x", "'x' is not a number of devices"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(line, said):
    with pytest.raises(UsageError, match=said):
        arguments(line)


def test_a_job_can_be_described():
    line = (
        "--launcher slurm --nodes 2 --slots 8 --launcher-arg=--constraint=gpu --launcher-arg=-v "
        "--template job.sh --queue long --account physics --time-limit 2h --job-name weather "
        "--job-dir /scratch"
    )
    assert arguments(line) == {
        "launcher": "slurm",
        "nodes": 2,
        "slots": 8,
        "launcher_args": ["--constraint=gpu", "-v"],
        "template": "job.sh",
        "queue": "long",
        "account": "physics",
        "time_limit_s": 7200.0,
        "job_name": "weather",
        "job_dir": "/scratch",
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--launcher torque", "invalid choice: 'torque'"),
        ("--launcher slurm --nodes 0", "argument --nodes: '0' is not a number, 1 or more"),
        ("--launcher slurm --slots none", "argument --slots: 'none' is not a number"),
        ("--launcher slurm --time-limit soon", "argument --time-limit: duration 'soon' is not"),
        ("--launcher slurm --launcher-arg", "argument --launcher-arg: expected one argument"),
    ],
)
def test_a_job_that_cannot_be_meant_is_refused(line, said):
    with pytest.raises(UsageError) as raised:
        arguments(line)
    assert said in str(raised.value)
