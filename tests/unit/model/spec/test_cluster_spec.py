import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec.cluster_spec import (
    ClusterSpec,
    HostSpec,
    check_spec,
    default_timeout_s,
    parse_duration_s,
    parse_ssh,
)


def make(**changes):
    return ClusterSpec(**{"name": "demo", "hosts": (HostSpec("a", 2), HostSpec("b", 3)), **changes})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("15m", 900),
        ("2h", 7200),
        ("1d", 86400),
        ("1.5m", 90),
        ("250ms", 0.25),
    ],
)
def test_durations_are_read_in_their_unit(text, seconds):
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "m", "-5s", "5 minutes", "1e3", "nan", "inf", "5s5"])
def test_durations_that_cannot_be_read_are_refused(text):
    with pytest.raises(UsageError, match="15m"):
        parse_duration_s(text)


def test_the_world_is_as_large_as_all_slots_unless_a_host_decides_for_itself():
    assert make().world_size == 5
    assert make(hosts=(HostSpec("a", 2), HostSpec("b"))).world_size == 0


def test_an_address_has_no_brackets():
    assert HostSpec("[fd00::1]").address == "fd00::1"
    assert HostSpec("node01").address == "node01"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("ssh", ("ssh",)),
        ("ssh -F 'my file'", ("ssh", "-F", "my file")),
        (["ssh", "-F", "my file"], ("ssh", "-F", "my file")),
    ],
)
def test_an_ssh_command_is_read_as_words(given, words):
    assert parse_ssh(given) == words


@pytest.mark.parametrize("given", ["", "ssh 'x", [], [""], ["ssh", 1]])
def test_an_ssh_command_that_cannot_be_run_is_refused(given):
    with pytest.raises(UsageError, match="ssh command"):
        parse_ssh(given)


def test_hosts_that_join_get_more_time():
    assert default_timeout_s([HostSpec("a")]) == 60
    assert default_timeout_s([HostSpec("a"), HostSpec("join-1", launcher="join")]) == 600


def test_a_sound_spec_passes_unchanged():
    spec = make()
    assert check_spec(spec) is spec


@pytest.mark.parametrize(
    "fields",
    [
        {"env": {"PYTHONHASHSEED": "0"}},
        {"devices_per_engine": 0, "hosts": (HostSpec("a", 1), HostSpec("b"))},
        {"devices_per_engine": 4, "cpu_devices": 8, "jax": "never"},
    ],
)
def test_what_can_be_meant_of_environment_and_devices_is_accepted(fields):
    check_spec(make(**fields))


@pytest.mark.parametrize("name", ["", "-x", ".hidden", "../x", "a/b", "a b", "x" * 65, "ä"])
def test_names_that_cannot_be_file_names_are_refused(name):
    with pytest.raises(UsageError, match="cluster name"):
        check_spec(make(name=name))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"communicator": "mpi"}, "auto, ring, gloo, nccl, none"),
        ({"timeout_s": 0}, "timeout 0"),
        ({"timeout_s": float("nan")}, "timeout nan"),
        ({"keep_s": -1}, "keep -1"),
        ({"collective_timeout_s": 0}, "collective timeout 0"),
        ({"sample_interval_s": 0.1}, "sample interval 0.1 s .* 0.2-60 s"),
        ({"sample_interval_s": 61}, "sample interval 61 s"),
        ({"sample_interval_s": float("nan")}, "sample interval nan s"),
        ({"save_on_preempt": "kept"}, "save on preempt 'kept'"),
        ({"save_on_preempt": "/a\0b"}, "save on preempt"),
        ({"preempt_command": " "}, "preempt command ' '"),
        ({"preempt_command": "a\0b"}, "preempt command"),
        ({"start_method": "vfork"}, "auto, fork, spawn"),
        ({"jax": "yes"}, "jax 'yes' .* auto, start, never"),
        ({"cpu_devices": -1}, "cpu devices -1 .* 1-1024"),
        ({"cpu_devices": 1025}, "cpu devices 1025"),
        ({"devices_per_engine": -1}, "devices per engine -1"),
        ({"devices_per_engine": 2, "oversubscribe": True}, "oversubscribe"),
        ({"devices_per_engine": 0, "oversubscribe": True}, "oversubscribe"),
        ({"devices_per_engine": 0, "hosts": (HostSpec("a", 1), HostSpec("b", 2))}, "b: 2 ranks"),
        ({"env": {"PYTHONHASHSEED": "7"}}, "PYTHONHASHSEED = '7' .* 0 "),
        ({"hosts": (HostSpec("a", env={"PYTHONHASHSEED": "random"}),)}, "host 'a': .*'random'"),
        ({"env": {"A": 1}}, "the cluster: 'A' = 1"),
        ({"env": {"A=B": "1"}}, "the cluster: 'A=B'"),
        ({"interface": "10.1.0.0/99"}, "interface '10.1.0.0/99' of the cluster"),
        ({"hosts": ()}, "a cluster has 1-4096"),
        ({"hosts": (HostSpec("a"), HostSpec("b"), HostSpec("a"))}, "'a,b,a': a is named twice"),
    ],
)
def test_what_cannot_be_meant_is_named_with_what_is_accepted(changes, named):
    with pytest.raises(UsageError, match=named):
        check_spec(make(**changes))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": "a b"}, "hosts 'a b'"),
        ({"name": "-oProxyCommand=x"}, "hosts '-oProxyCommand=x'"),
        ({"name": "join"}, "hosts 'join'"),
        ({"name": "[fe80::1%../x]"}, r"hosts '\[fe80"),
        ({"slots": -1}, "host 'a', slots -1: give 1-4096"),
        ({"slots": 4097}, "slots 4097"),
        ({"launcher": "rsh"}, "launcher 'rsh': accepted are auto, local, ssh, join"),
        ({"user": "-l"}, "user '-l'"),
        ({"user": "a b"}, "user 'a b'"),
        ({"port": 65536}, "port 65536: give 1-65535"),
        ({"ssh": ()}, r"ssh command \(\)"),
        ({"setup": ("a\nb",)}, "host 'a', setup"),
        ({"devices": (0, 0)}, "host 'a', devices"),
        ({"devices": (-1,)}, "host 'a', devices"),
        ({"env": {"": "x"}}, "environment of host 'a': ''"),
        ({"interface": "x/y"}, "interface 'x/y' of host 'a'"),
    ],
)
def test_what_cannot_be_meant_of_a_host_names_the_host(fields, named):
    with pytest.raises(UsageError, match=named):
        check_spec(make(hosts=(HostSpec(**{"name": "a", **fields}),)))


def test_everything_that_a_host_can_be_asked_is_accepted():
    host = HostSpec(
        name="[fe80::1%eth0]",
        slots=8,
        launcher="ssh",
        user="EXAMPLE\\alice",
        port=2222,
        ssh=("ssh", "-F", "x"),
        python="/opt/env",
        setup=("module load cuda",),
        env={"A": ""},
        cwd="/work",
        devices=(3, 1),
        interface="10.1.0.0/16",
        tunnel=True,
    )
    check_spec(make(hosts=(host,)))
