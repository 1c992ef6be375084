import pytest

from jupyter_dist.cluster.spec.host_list import parse_hosts
from jupyter_dist.cluster.spec.spec_file import read_spec, write_spec
from jupyter_dist.errors import HostSpecError, UsageError
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec, check_spec
from jupyter_dist.model.spec.liveness import HealthPolicy

WHOLE = """
name = "weather"
communicator = "ring"
oversubscribe = true
timeout = "2m"
keep = 3600
collective_timeout = 1.5
sample_interval = "500ms"
save_on_preempt = "kept"
preempt_command = "test -e /leaving"
cwd = "work"
start_method = "spawn"
interface = "10.1.0.0/16"
install = true
wheelhouse = "wheels"
one_machine = true
cpu_devices = 2
jax = "start"
env = { A = "1" }

[health]
lost_after = "20s"

[defaults]
python = "/opt/env"
ssh = "ssh -F 'my config'"
env = { B = "2", C = "3" }
slots = 4

[[hosts]]
name = "node[01-02]"
env = { C = "other" }

[[hosts]]
name = "alice@far:8"
launcher = "ssh"
port = 2222
ssh = ["ssh", "-v"]
python = "/usr/bin/python3"
setup = \"\"\"
module load cuda
ulimit -n 4096
\"\"\"
cwd = "/scratch"
devices = [1, 0]
interface = "ib0"
tunnel = true
"""


def read(text, **more):
    return read_spec(text, "/etc/jd/cluster.toml", **more)


def hosts(text, **more):
    return read(text, **more).hosts


def test_every_key_is_read():
    common = {"python": "/opt/env", "ssh": ("ssh", "-F", "my config")}
    near = {"slots": 4, "env": {"B": "2", "C": "other"}, **common}
    far = HostSpec(
        "far",
        slots=8,
        launcher="ssh",
        user="alice",
        port=2222,
        ssh=("ssh", "-v"),
        python="/usr/bin/python3",
        setup=("module load cuda", "ulimit -n 4096"),
        env={"B": "2", "C": "3"},
        cwd="/scratch",
        devices=(1, 0),
        interface="ib0",
        tunnel=True,
    )
    assert read(WHOLE) == ClusterSpec(
        name="weather",
        hosts=(HostSpec("node01", **near), HostSpec("node02", **near), far),
        communicator="ring",
        oversubscribe=True,
        timeout_s=120.0,
        keep_s=3600.0,
        collective_timeout_s=1.5,
        sample_interval_s=0.5,
        save_on_preempt="/etc/jd/kept",
        preempt_command="test -e /leaving",
        env={"A": "1"},
        cwd="/etc/jd/work",
        start_method="spawn",
        interface="10.1.0.0/16",
        install=True,
        wheelhouse="/etc/jd/wheels",
        one_machine=True,
        cpu_devices=2,
        jax="start",
        health=HealthPolicy(lost_after_s=20.0),
    )


def test_a_host_can_take_a_default_back():
    assert not hosts('[defaults]\ntunnel = true\n[[hosts]]\nname = "a"\ntunnel = false')[0].tunnel


def test_an_empty_file_means_what_a_start_without_options_means():
    assert read("") == ClusterSpec(name="", hosts=(HostSpec("localhost", 4),))


def test_defaults_reach_hosts_that_are_named_outside():
    given = parse_hosts("a:2,bob@b")
    assert hosts('[defaults]\nuser = "alice"\nslots = 8\ncwd = "/x"', hosts=given) == (
        HostSpec("a", 2, user="alice", cwd="/x"),
        HostSpec("b", 8, user="bob", cwd="/x"),
    )


@pytest.mark.parametrize(("value", "number"), [("2", 2), ('"2"', 2), ('"all"', 0), ("1", 1)])
def test_devices_of_an_engine_are_a_number_or_all(value, number):
    spec = read(f"devices_per_engine = {value}\n[[hosts]]\nname = 'a'")
    assert spec.devices_per_engine == number
    assert read(write_spec(spec)) == spec


def test_without_hosts_devices_of_an_engine_mean_this_machine_with_all_its_devices():
    assert hosts("devices_per_engine = 2") == (HostSpec("localhost"),)
    assert hosts("devices_per_engine = 1") == (HostSpec("localhost", 4),)
    assert hosts("devices_per_engine = 2", hosts=parse_hosts("b:3")) == (HostSpec("b", 3),)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("/abs", "/abs"), ("sub/x", "/etc/jd/sub/x"), ("~/x", "~/x"), (".", "/etc/jd"), ("", "")],
)
def test_relative_paths_are_meant_from_the_folder_of_the_file(given, meant):
    spec = read(f'cwd = "{given}"\nwheelhouse = "{given}"\n[[hosts]]\nname = "a"\ncwd = "{given}"')
    assert (spec.cwd, spec.wheelhouse) == (meant, meant)
    assert spec.hosts[0].cwd == given, "a path of the host is left alone"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("name =  # none\n", ["cluster.toml is not ", "line 1"]),
        ("keep = " + "9" * 5000, ["cluster.toml is not "]),
        ("timeuot = 3", ["'timeuot' is unknown", " 'timeout'?", "Accepted: name, "]),
        ("comm = 'ring'", ["'comm' is unknown", " 'communicator'?"]),
        ("host = []", [" 'hosts'?"]),
        ("zzz = 1", ["'zzz' is unknown. Accepted: name, coordinator, "]),
        ("[defaults]\nlauncher = 'ssh'", ["[defaults]: key 'launcher' is unknown", "python"]),
        ("[[hosts]]\nname = 'a'\nslot = 1", ["[[hosts]] 1 (a): key 'slot'", "'slots'"]),
        ("[health]\nbeat = 1", ["[health]: key 'beat'", "interval, suspect_after, lost_after"]),
        ("name = 3", ["name = 3 "]),
        ('name = "a\\u0000"', ["name = "]),
        ('timeout = "soon"', ['timeout = "soon" ', '"2m"']),
        ("timeout = true", ["timeout = true"]),
        ("timeout = 1" + "0" * 400, ["timeout = 1000", "…"]),
        ("devices_per_engine = 0", ["devices_per_engine = 0 is", '1 or more, or "all"']),
        ("devices_per_engine = true", ["devices_per_engine = true"]),
        ('install = "yes"', ['install = "yes" ', "true or false"]),
        ("communicator = 'mpi'", ['Accepted: "auto" or "ring" or "gloo" or "nccl" or "none"']),
        ("env = { A = 1 }", ['env = {"A": 1} ', 'OMP_NUM_THREADS = "1"']),
        ("defaults = 1", ["defaults = 1 ", "[defaults]"]),
        ("health = 1", ["health = 1 ", "[health]"]),
        ("hosts = 'a:8'", ['hosts = "a:8" ', "[[hosts]]"]),
        ("[hosts]\nname = 'a'", ["Accepted: tables [[hosts]]"]),
        ("[[hosts]]\nslots = 8", ["[[hosts]] 1 ", 'name = "node[01-04]"']),
        ("[[hosts]]\nname = 8", ["[[hosts]] 1: name = 8 "]),
        ("[[hosts]]\nname = 'a'\nslots = 'four'", ['(a): slots = "four" ', "whole"]),
        ("[[hosts]]\nname = 'a'\nslots = true", ["slots = true"]),
        ("[[hosts]]\nname = 'a'\nslots = -1", ["slots = -1"]),
        ("[[hosts]]\nname = 'a'\nlauncher = 'rsh'", ['"auto" or "local" or "ssh" or "join"']),
        ("[[hosts]]\nname = 'a'\nssh = \"ssh 'x\"", ['ssh = "ssh ', "list"]),
        ("[[hosts]]\nname = 'a'\nssh = []", ["ssh = []"]),
        ("[[hosts]]\nname = 'a'\nsetup = [1]", ["setup = [1]", "module load cuda"]),
        ("[[hosts]]\nname = 'a'\ndevices = 0", ["devices = 0", "[0, 1]"]),
        ("[[hosts]]\nname = 'a:8'\nslots = 4", ["slots is said ", "'a:8'"]),
        ("[[hosts]]\nname = 'b@a'\nuser = 'c'", ["user is said "]),
        ("[[hosts]]\nname = 'join:2'\nlauncher = 'ssh'", ["launcher is said "]),
    ],
)
def test_what_is_not_accepted_is_named_with_file_key_and_what_is(text, parts):
    with pytest.raises(UsageError) as caught:
        read(text)
    assert str(caught.value).startswith("/etc/jd/cluster.toml")
    for part in parts:
        assert part in str(caught.value)


def test_a_name_that_cannot_be_read_says_where_it_stands():
    with pytest.raises(
        HostSpecError, match=r"cluster.toml: \[\[hosts\]\] 2 \(b:x\): name 'b:x': 'x'"
    ):
        read("[[hosts]]\nname = 'a'\n[[hosts]]\nname = 'b:x'")


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(read(WHOLE), id="all keys"),
        pytest.param(ClusterSpec(name="a", hosts=(HostSpec("a"),)), id="all defaults"),
        *(ClusterSpec(name="j", hosts=parse_hosts("join:2"), timeout_s=s) for s in (60.0, 600.0)),
        pytest.param(
            ClusterSpec(
                name="odd",
                hosts=(
                    HostSpec("[fd00::1]", env={"A b": 'quote " and \\ and\nline ä'}),
                    HostSpec("b", user="EXAMPLE\\bob", ssh=("my ssh", "a b"), setup=("x 'y'",)),
                ),
                timeout_s=0.1,
                keep_s=1e-9,
                collective_timeout_s=86401.0,
                coordinator=HostSpec("login", launcher="ssh", user="alice"),
            ),
            id="odd values",
        ),
    ],
)
def test_what_is_written_reads_back_to_an_equal_spec(spec):
    assert read(write_spec(check_spec(spec))) == spec


def test_only_what_is_unusual_is_written():
    spec = ClusterSpec(name="a", hosts=(HostSpec("b"), HostSpec("c", 2)), keep_s=7200.0)
    assert write_spec(spec) == (
        'name = "a"\nkeep = "2h"\nhosts = [\n    { name = "b" },\n    { name = "c", slots = 2 },\n]\n'
    )
