import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.options.command_options import OptionParser
from jupyter_dist.options.start_options import add_host_options, add_start_options, start_arguments


def arguments(line, add=add_start_options):
    parser = OptionParser(prog="%dist_start", example="%dist_start -n 4")
    add(parser)
    return start_arguments(parser.read(line))


@pytest.mark.parametrize("add", [add_start_options, add_host_options])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", {}),
        ("--hosts 'n[1-2]:8'", {"hosts": "n[1-2]:8"}),
        ("--hostfile h --spec s --tunnel", {"hostfile": "h", "spec": "s", "tunnel": True}),
        ("--python p --ssh 'ssh -F x'", {"python": "p", "ssh": "ssh -F x"}),
        ("--interface ib0 --ports 47000-47009", {"interface": "ib0", "ports": "47000-47009"}),
    ],
)
def test_where_and_how_is_asked_alike_for_a_start_and_for_a_check(add, line, said):
    assert arguments(line, add) == said


@pytest.mark.parametrize("line", ["-n 1", "--install", "--wheelhouse w", "--name x"])
def test_a_check_takes_nothing_but_where_and_how(line):
    with pytest.raises(UsageError, match="unrecognized arguments"):
        arguments(line, add_host_options)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--jax", {"jax": "start"}),
        ("--no-jax", {"jax": "never"}),
        ("--devices-per-engine 2", {"devices_per_engine": "2"}),
        ("--devices-per-engine all", {"devices_per_engine": "all"}),
        ("--cpu-devices 1", {"cpu_devices": 1}),
        ("--cpu-devices 1024", {"cpu_devices": 1024}),
        ("--comm nccl", {"comm": "nccl"}),
        ("--install --wheelhouse w", {"install": True, "wheelhouse": "w"}),
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
        ("-n 1 --hosts a", "not allowed with"),
        ("-n 1 --hostfile f", "not allowed with"),
        ("--hosts a --hostfile f", "not allowed with"),
        ("--cpu-devices 0", "'0' is not a number of devices, 1-1024"),
        ("--cpu-devices 1025", "'1025' is not a number of devices"),
        ("--cpu-devices x", "'x' is not a number of devices"),
        ("--launcher torque", "'torque'"),
        ("--launcher slurm --nodes 0", "argument --nodes: '0'"),
        ("--launcher slurm --slots none", "argument --slots: 'none'"),
        ("--launcher slurm --time-limit soon", "argument --time-limit: duration 'soon'"),
        ("--launcher slurm --launcher-arg", "argument --launcher-arg: "),
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
