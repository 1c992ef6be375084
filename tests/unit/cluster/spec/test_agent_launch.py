from types import SimpleNamespace

import pytest

from jupyter_dist.cluster.spec import agent_launch as launching
from jupyter_dist.cluster.spec import specification
from jupyter_dist.cluster.spec.spec_file import read_spec, write_spec
from jupyter_dist.cluster.spec.specification import specify
from jupyter_dist.errors import UsageError
from jupyter_dist.launch import for_coordinator
from jupyter_dist.launch.batch.allocation import Allocation
from jupyter_dist.model.spec.batch import BatchSpec
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec


@pytest.fixture(autouse=True)
def surroundings(monkeypatch):
    """This machine has one name, and no allocation until a test gives one."""
    around = SimpleNamespace(allocation=None)
    monkeypatch.setattr(for_coordinator, "is_this_machine", lambda host: host == "localhost")
    monkeypatch.setattr(specification, "free_name", lambda: "cluster-7")
    monkeypatch.setattr(launching, "find_allocation", lambda _environ: around.allocation)
    return around


def allocation(**facts):
    return Allocation(**{"system": "slurm", "job_id": "12", "nodes": 2, **facts})


def refusal(*args, **given):
    with pytest.raises(UsageError) as raised:
        specify(*args, **given)
    return str(raised.value)


def test_the_nodes_of_a_job_are_hosts_that_join(tmp_path):
    spec = specify(
        launcher="slurm",
        nodes=2,
        slots=8,
        launcher_args=["--constraint=gpu"],
        queue="long",
        account="physics",
        time_limit_s=7200.0,
        job_name="weather",
        job_dir=tmp_path,
        python="/opt/env",
    )
    assert spec.hosts == tuple(
        HostSpec(name, 8, launcher="join", python="/opt/env") for name in ("slurm-1", "slurm-2")
    )
    assert spec.batch == BatchSpec(
        system="slurm",
        nodes=2,
        arguments=("--constraint=gpu",),
        queue="long",
        account="physics",
        time_limit_s=7200.0,
        job_name="weather",
        directory=str(tmp_path),
    )
    assert spec.timeout_s == 600.0
    assert spec.world_size == 16


def test_each_node_has_as_many_ranks_as_it_has_gpus_unless_said():
    spec = specify(launcher="mpi", nodes=1, timeout_s=90.0)
    assert [(host.name, host.slots) for host in spec.hosts] == [("mpi-1", 0)]
    assert spec.timeout_s == 90.0


def test_the_text_of_a_template_travels_with_the_specification(tmp_path):
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/sh\nsrun {agent}")
    spec = specify(launcher="slurm", nodes=1, template=path)
    assert spec.batch.template == "#!/bin/sh\nsrun {agent}\n"
    path.write_text(" \n")
    assert "is empty" in refusal(launcher="slurm", nodes=1, template=path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"launcher": "torque"}, "launcher 'torque' is unknown. Accepted: auto, local, ssh, slurm"),
        ({"hosts": "nodeA:8", "launcher": "slurm"}, "hosts 'nodeA:8' and launcher 'slurm' "),
        ({"launcher": "slurm", "slots": 8}, "--nodes 2"),
        ({"launcher": "slurm", "nodes": 0}, "0 nodes "),
        ({"launcher": "slurm", "nodes": 2, "slots": 5000}, "host 'slurm-1', slots 5000: "),
        ({"launcher": "mpi", "nodes": 2, "queue": "long"}, "queue 'long' "),
        ({"launcher": "slurm", "nodes": 2, "time_limit_s": 5.0}, "time limit 5 s "),
        ({"launcher": "slurm", "nodes": 2, "job_dir": "/nowhere"}, "job directory '/nowhere'"),
        ({"launcher": "slurm", "nodes": 2, "template": "/nowhere"}, "template '/nowhere'"),
        ({"nodes": 2}, "nodes means "),
        ({"nodes": 2, "launcher": "ssh"}, "nodes means "),
        ({"nodes": 2, "launcher": "auto"}, "--launcher auto "),
        ({"launcher_args": ["--x"]}, "launcher argument means "),
        ({"time_limit_s": 60.0}, "time limit means "),
        ({"hosts": "localhost", "slots": 4}, "slots 4 and hosts 'localhost' "),
        ({"slots": -1}, "-1 slots "),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_starts(given, said):
    assert said in refusal(**given)


def test_hosts_of_a_specification_and_a_job_do_not_go_together(spec_file):
    path = spec_file('[[hosts]]\nname = "nodeA"')
    assert f"hosts '[[hosts]] of {path}' and launcher 'slurm'" in refusal(
        spec=path, launcher="slurm"
    )
    spec = ClusterSpec(name="", hosts=(HostSpec("nodeA"),))
    assert "hosts 'nodeA' and launcher 'slurm'" in refusal(spec=spec, launcher="slurm")


BATCH = """
timeout = "1h"

[defaults]
python = "/opt/env"

[batch]
system = "slurm"
nodes = 2
slots = 8
time_limit = "2h"
template = "job.sh"
"""


@pytest.fixture
def batch_file(spec_file, tmp_path):
    """The path of the specification BATCH; the template is beside it."""
    (tmp_path / "job.sh").write_text("#!/bin/sh\nsrun {agent}\n")
    return spec_file(BATCH)


def test_a_specification_may_have_a_job(batch_file):
    spec = specify(spec=batch_file)
    assert [(host.name, host.slots) for host in spec.hosts] == [("slurm-1", 8), ("slurm-2", 8)]
    assert spec.hosts[1].python == "/opt/env"
    assert (spec.batch.time_limit_s, spec.batch.template[:9]) == (7200.0, "#!/bin/sh")
    assert spec.timeout_s == 3600.0


def test_what_is_asked_for_goes_before_it(batch_file):
    spec = specify(spec=batch_file, launcher="pbs", nodes=3, slots=2)
    assert [(host.name, host.slots) for host in spec.hosts] == [(f"pbs-{n}", 2) for n in (1, 2, 3)]
    assert (spec.batch.system, spec.batch.time_limit_s) == ("pbs", 7200.0)


def test_a_specification_of_a_job_that_is_written_is_read_again(batch_file, tmp_path):
    spec = specify(spec=batch_file, cwd=tmp_path)
    assert read_spec(write_spec(spec), tmp_path / "other.toml") == spec
    assert specify(spec=spec) == spec


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[batch]\nnodes = 2\nsystem = "torque"', '[batch]: system = "torque" '),
        ("[batch]\nnodes = 2", "no system"),
        ('[batch]\nsystem = "slurm"', "no nodes"),
        ('[batch]\nsystem = "slurm"\nnodes = 5000', "5000 nodes "),
        ('[batch]\nsystem = "slurm"\nnodes = 2\nque = "x"', "[batch]: key 'que' "),
        (f'{BATCH}[[hosts]]\nname = "a"', "[batch]: "),
        ("batch = 3", "batch = 3 "),
    ],
)
def test_a_job_that_cannot_be_meant_is_refused(spec_file, text, said):
    assert said in refusal(spec=spec_file(text))


def test_a_job_of_a_specification_has_no_other_hosts_or_launcher(spec_file):
    path = spec_file(BATCH)
    assert f"{path}: [batch]" in refusal("nodeA", spec=path)
    assert "launcher 'ssh' and the [batch] table" in refusal(spec=path, launcher="ssh")


def test_in_an_allocation_its_nodes_are_the_hosts(surroundings):
    surroundings.allocation = allocation(slots_per_node=4)
    spec = specify(launcher="auto", launcher_args=["--overlap"])
    assert [(host.name, host.slots) for host in spec.hosts] == [("slurm-1", 4), ("slurm-2", 4)]
    assert spec.batch == BatchSpec(
        system="slurm", nodes=2, is_within=True, arguments=("--overlap",)
    )
    fewer = specify(launcher="auto", nodes=1, slots=2)
    assert [(host.name, host.slots) for host in fewer.hosts] == [("slurm-1", 2)]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"nodes": 3}, ("3 nodes ", "Slurm job 12 ", " 2 nodes")),
        ({"slots": 8}, ("8 slots ", "Slurm job 12 ", " has 4")),
        ({"queue": "long"}, ("queue ", "--launcher auto")),
    ],
)
def test_what_an_allocation_has_not_or_has_settled_cannot_be_asked_for(surroundings, asked, told):
    surroundings.allocation = allocation(slots_per_node=4)
    assert all(part in refusal(launcher="auto", **asked) for part in told)


def test_hosts_that_are_named_are_used_in_an_allocation_too(surroundings):
    surroundings.allocation = allocation()
    spec = specify("localhost:2", launcher="auto")
    assert (spec.batch, spec.hosts[0].launcher) == (None, "local")
    assert specify("localhost:2").batch is None


def test_a_job_of_its_own_can_be_submitted_from_within_an_allocation(surroundings):
    surroundings.allocation = allocation()
    assert not specify(launcher="slurm", nodes=1).batch.is_within


def test_outside_of_an_allocation_auto_is_as_usual():
    assert specify(launcher="auto").hosts == specify().hosts
    assert [host.slots for host in specify(launcher="auto", slots=2).hosts] == [2]


def test_one_launcher_for_all_hosts():
    assert [host.launcher for host in specify("localhost:2", launcher="ssh").hosts] == ["ssh"]
    assert [host.launcher for host in specify("far:2", launcher="local").hosts] == ["local"]
    mixed = specify("localhost:2,join:1", launcher="ssh")
    assert [host.launcher for host in mixed.hosts] == ["ssh", "join"]


def test_an_option_that_does_not_exist_is_an_error_of_the_program():
    with pytest.raises(TypeError, match="'nodez'"):
        specify(nodez=2)
