import socket

import pytest

from jupyter_dist.cluster.spec import specification
from jupyter_dist.cluster.spec.host_list import parse_hosts
from jupyter_dist.cluster.spec.specification import name_in, specify
from jupyter_dist.errors import HostSpecError, UsageError
from jupyter_dist.launch import for_coordinator
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec

HERE = ("localhost", "127.0.0.1", "here", "::1")


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """A network of our own: some names are this machine, `far…` are others, the rest unknown."""

    def is_this_machine(host):
        if host in HERE:
            return True
        if host.startswith("far"):
            return False
        if host == "broken":
            raise UnicodeError("label empty or too long")
        raise OSError("Name or service not known")

    monkeypatch.setattr(for_coordinator, "is_this_machine", is_this_machine)
    monkeypatch.setattr(specification, "free_name", lambda: "cluster-7")


def launchers(*given, **more):
    return {host.name: host.launcher for host in specify(*given, **more).hosts}


def test_nothing_asked_means_four_ranks_here_for_a_minute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert specify() == ClusterSpec(
        name="cluster-7",
        hosts=(HostSpec("localhost", 4, launcher="local"),),
        timeout_s=60.0,
        cwd=str(tmp_path.resolve()),
    )


@pytest.mark.parametrize(
    ("hosts", "launcher"),
    [
        *(("here", "local"), ("[::1]", "local"), ("far", "ssh"), ("[fd00::1]", "ssh")),
        # Names that only ssh may know, and other users.
        *(("gpu-box", "ssh"), ("broken", "ssh"), ("bob@localhost", "ssh")),
    ],
)
def test_this_machine_needs_no_ssh_and_every_other_does(hosts, launcher):
    assert launchers(f"{hosts}:1") == {hosts.removeprefix("bob@"): launcher}


def test_this_machine_is_known_by_its_real_names(monkeypatch):
    from jupyter_dist.launch.local import is_this_machine

    monkeypatch.setattr(for_coordinator, "is_this_machine", is_this_machine)
    assert launchers("localhost:1") == {"localhost": "local"}
    assert launchers(f"{socket.gethostname()}:1") == {socket.gethostname(): "local"}


def test_a_launcher_that_was_named_stays():
    hosts = [
        HostSpec("localhost", 1, launcher="ssh"),
        HostSpec("gpu-box", 1, launcher="local"),
        HostSpec("join-1", launcher="join"),
    ]
    assert launchers(hosts) == {"localhost": "ssh", "gpu-box": "local", "join-1": "join"}


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        ("localhost:2,127.0.0.1:2", "localhost and 127.0.0.1 are "),
        ("localhost:2,far:1,here:2,127.0.0.1:1", "localhost, here and 127.0.0.1 are "),
        ("localhost:2,127.0.0.1:2", ": localhost:4 "),
        ("here,127.0.0.1:2", ": here ("),
        ("localhost:2,bob@here:1", "localhost and here are "),
    ],
)
def test_this_machine_is_one_host(hosts, said):
    with pytest.raises(HostSpecError) as caught:
        specify(hosts)
    assert said in str(caught.value)
    assert "one_machine" in str(caught.value)
    assert caught.value.given == hosts


def test_a_rehearsal_of_many_hosts_may_have_one_machine(spec_file):
    both = {"localhost": "local", "127.0.0.1": "local"}
    assert launchers("localhost:2,127.0.0.1:2", one_machine=True) == both
    assert launchers("localhost,127.0.0.1", spec=spec_file("one_machine = true")) == both


def test_hosts_come_from_a_host_file(tmp_path):
    (tmp_path / "hosts").write_text("far1 slots=8\nfar2 slots=8\n")
    assert [host.slots for host in specify(hostfile=tmp_path / "hosts").hosts] == [8, 8]
    assert launchers(hostfile=tmp_path / "hosts") == {"far1": "ssh", "far2": "ssh"}


def test_a_problem_in_a_host_file_names_it(tmp_path):
    (tmp_path / "hosts").write_text("far1\nfar2 x\n")
    with pytest.raises(HostSpecError, match="hosts, line 2: 'far2 x'"):
        specify(hostfile=tmp_path / "hosts")


def test_hosts_come_from_a_spec_file_or_a_spec(spec_file):
    path = spec_file('name = "w"\n[[hosts]]\nname = "far[1-2]:8"')
    spec = specify(spec=path)
    assert (spec.name, launchers(spec=str(path))) == ("w", {"far1": "ssh", "far2": "ssh"})
    assert specify(spec=spec) == spec


def test_a_spec_without_hosts_takes_those_of_the_command(spec_file, tmp_path):
    path = spec_file('[defaults]\npython = "/opt/env"')
    assert specify("far:2", spec=path).hosts == (
        HostSpec("far", 2, launcher="ssh", python="/opt/env"),
    )
    (tmp_path / "hosts").write_text("far slots=2\n")
    assert specify(hostfile=tmp_path / "hosts", spec=path).hosts[0].python == "/opt/env"
    assert specify(spec=path).hosts[0].name == "localhost"
    empty = ClusterSpec(name="x", hosts=())
    assert launchers("far:2", spec=empty) == {"far": "ssh"}
    assert launchers(spec=empty) == {"localhost": "local"}


def test_hosts_are_named_in_one_place_only(spec_file, tmp_path):
    path = spec_file('[[hosts]]\nname = "far"')
    with pytest.raises(UsageError, match=r"'a' .*'x'"):
        specify("a", hostfile="x")
    with pytest.raises(UsageError, match=r"cluster\.toml .*\[\[hosts\]\]"):
        specify("a", spec=path)
    with pytest.raises(UsageError, match=r"^The spec "):
        specify("a", spec=ClusterSpec(name="x", hosts=parse_hosts("far")))
    (tmp_path / "hosts").write_text("far\n")
    with pytest.raises(UsageError, match=r"cluster\.toml .*--hostfile"):
        specify(hostfile=tmp_path / "hosts", spec=path)


@pytest.mark.parametrize(("hosts", "said"), [([], r"\[\]"), (["a:8"], "'a:8' is not a HostSpec")])
def test_a_sequence_of_anything_but_hosts_is_refused(hosts, said):
    with pytest.raises(HostSpecError, match=said):
        specify(hosts)


@pytest.mark.parametrize("option", ["hostfile", "spec"])
def test_a_file_that_cannot_be_read_is_named(option, tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path, said in (("/no/such/file", "No such file"), (tmp_path / "binary", "UTF-8")):
        with pytest.raises(UsageError, match=f"'/.*: .*{said}"):
            specify(**{option: path})


FILE = """
name = "file"
timeout = 5
keep = 6
communicator = "none"
oversubscribe = true
start_method = "spawn"
interface = "eth0"
install = true
one_machine = true
env = { A = "file", B = "file" }
[[hosts]]
name = "far"
python = "/file"
ssh = "file"
tunnel = true
"""


def test_wishes_go_before_what_the_file_says(spec_file, tmp_path):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    assert specify(
        spec=spec_file(FILE),
        name="wish",
        timeout_s=1,
        keep_s=2,
        env={"B": "wish", "C": "wish"},
        cwd=tmp_path,
        comm="ring",
        oversubscribe=False,
        start_method="fork",
        python="/wish",
        ssh="wish -F 'my file'",
        interface="ib0",
        tunnel=False,
        install=False,
        wheelhouse=wheels,
        one_machine=False,
    ) == ClusterSpec(
        name="wish",
        hosts=(HostSpec("far", launcher="ssh", python="/wish", ssh=("wish", "-F", "my file")),),
        communicator="ring",
        timeout_s=1,
        keep_s=2,
        env={"A": "file", "B": "wish", "C": "wish"},
        cwd=str(tmp_path),
        start_method="fork",
        interface="ib0",
        wheelhouse=str(wheels),
    )


def test_devices_of_engines_and_the_moment_of_jax_can_be_wished(spec_file):
    file = spec_file('devices_per_engine = 2\ncpu_devices = 3\njax = "start"')
    for asked, expected in (
        ({"devices_per_engine": "all", "cpu_devices": 2, "jax": "never"}, (0, 2, "never")),
        ({"spec": file}, (2, 3, "start")),
        ({"spec": file, "devices_per_engine": 4, "jax": "auto"}, (4, 3, "auto")),
    ):
        spec = specify("a:1", **asked)
        assert (spec.devices_per_engine, spec.cpu_devices, spec.jax) == expected


def test_where_to_save_before_a_host_is_taken_away_is_a_whole_path(
    spec_file, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/alice")
    assert specify("a:1").save_on_preempt == ""
    assert specify("a:1", save_on_preempt="x/../kept").save_on_preempt == f"{tmp_path}/kept"
    assert specify("a:1", save_on_preempt="~/kept").save_on_preempt == "/home/alice/kept"
    file = spec_file('save_on_preempt = "kept"\npreempt_command = "false"')
    beside = specify("a:1", spec=file)
    assert beside.save_on_preempt == str(file.parent / "kept")
    assert beside.preempt_command == "false"
    assert specify("a:1", spec=file, preempt_command="true").preempt_command == "true"


def test_who_says_how_many_devices_an_engine_has_lets_them_say_how_many_engines():
    assert specify(devices_per_engine=2).hosts == (HostSpec("localhost", launcher="local"),)
    assert specify(devices_per_engine=1).hosts[0].slots == 4


def test_what_is_not_wished_stays_as_the_file_says(spec_file):
    spec = specify(spec=spec_file(FILE))
    assert (spec.name, spec.timeout_s, spec.keep_s, spec.communicator) == ("file", 5, 6, "none")
    assert (spec.start_method, spec.interface, spec.env["B"]) == ("spawn", "eth0", "file")
    assert spec.install
    assert spec.one_machine
    assert spec.oversubscribe
    assert spec.hosts == (
        HostSpec("far", launcher="ssh", python="/file", ssh=("file",), tunnel=True),
    )


def test_wishes_about_ssh_concern_the_hosts_that_it_reaches():
    here, far, joins = specify(
        "localhost:1,far:1,join:1", ssh=["ssh", "-v"], tunnel=True, python="/opt/env"
    ).hosts
    assert (here.ssh, here.tunnel, here.python) == (("ssh",), False, "/opt/env")
    assert (far.ssh, far.tunnel, far.python) == (("ssh", "-v"), True, "/opt/env")
    assert (joins.ssh, joins.tunnel) == (("ssh",), False)


@pytest.mark.parametrize(
    ("hosts", "asked", "timeout_s"),
    [
        ("a:2", {}, 60),
        ("join:2", {}, 600),
        ("join:2", {"timeout_s": 30}, 30),
        ("a:2", {"install": True}, 600),
        ("a:2", {"install": True, "timeout_s": 30}, 30),
    ],
)
def test_hosts_that_join_or_install_have_more_time_unless_somebody_says_how_much(
    hosts, asked, timeout_s
):
    assert specify(hosts, **asked).timeout_s == timeout_s


def test_directories_are_checked_and_made_whole(tmp_path, monkeypatch, spec_file):
    for name in ("work", "wheels"):
        (tmp_path / name).mkdir()
    path = spec_file('cwd = "work"\nwheelhouse = "wheels"')
    spec = specify(spec=path)
    assert (spec.cwd, spec.wheelhouse) == (str(tmp_path / "work"), str(tmp_path / "wheels"))
    assert spec.install, "a wheelhouse is there to install from"
    monkeypatch.chdir(tmp_path)
    assert specify(wheelhouse="wheels").wheelhouse == str(tmp_path / "wheels")
    for option in ("wheelhouse", "cwd"):
        with pytest.raises(UsageError, match="'nope'"):
            specify(**{option: "nope"})


def test_a_directory_that_is_asked_for_is_one_of_the_machine_of_the_coordinator(
    tmp_path, monkeypatch, spec_file
):
    monkeypatch.chdir(tmp_path)
    usual = specify(coordinator="far")
    assert (usual.cwd, usual.is_cwd_optional) == (str(tmp_path.resolve()), True)
    for options in ({"cwd": "nope"}, {"spec": usual, "cwd": "nope"}):
        asked = specify(coordinator="far", **options)
        assert (asked.cwd, asked.is_cwd_optional) == ("nope", False)
    again = specify(spec=usual)
    assert (again.cwd, again.is_cwd_optional) == (usual.cwd, True)
    path = spec_file('cwd = "/only/there"\n[[hosts]]\nname = "far:1"\n')
    asked = specify(spec=path, coordinator="far")
    assert (asked.cwd, asked.is_cwd_optional) == ("/only/there", False)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"timeout_s": 0}, "timeout 0 "),
        ({"comm": "mpi"}, "communicator 'mpi' is unknown"),
        ({"name": "a/b"}, "cluster name 'a/b'"),
        ({"ssh": "ssh 'x"}, "ssh command"),
        ({"devices_per_engine": "some"}, "devices per engine 'some'"),
        ({"interface": "10.0.0.0/99"}, "interface '10.0.0.0/99'"),
        ({"env": {"A": 1}}, "'A' = 1"),
    ],
)
def test_wishes_that_cannot_be_meant_are_refused(given, said):
    with pytest.raises(UsageError, match=said):
        specify("far:1", **given)


def test_whether_a_specification_has_a_name_is_known_before_it_gets_one(spec_file):
    assert name_in(None) == name_in(spec_file('[[hosts]]\nname = "localhost:1"\n')) == ""
    assert name_in(spec_file('name = "weather"\n')) == "weather"
    assert name_in(ClusterSpec(name="mine", hosts=())) == "mine"


def test_where_the_coordinator_is_elsewhere_names_and_ssh_are_those_of_its_machine():
    spec = specify("here:1,far:2", coordinator="alice@far-login", ssh="ssh -F mine", python="/env")
    assert spec.coordinator == HostSpec(
        "far-login", launcher="ssh", user="alice", ssh=("ssh", "-F", "mine"), python="/env"
    )
    assert [(host.launcher, host.ssh, host.python) for host in spec.hosts] == [
        ("auto", ("ssh",), "/env"),
        ("auto", ("ssh",), "/env"),
    ]


def test_the_coordinator_is_here_unless_another_machine_is_named(spec_file):
    path = spec_file('coordinator = "far"\n[[hosts]]\nname = "far:1"\n')
    assert specify(spec=path).coordinator.name == "far"
    assert specify(spec=path, coordinator="here").coordinator is None
    assert specify(coordinator="localhost").coordinator is None
    assert specify(coordinator="bob@localhost").coordinator.user == "bob"


@pytest.mark.parametrize("given", ["far:2", "far,farther", "join:2", "", "a b"])
def test_a_coordinator_has_one_machine(given):
    with pytest.raises(HostSpecError, match=r"coordinator '.*Accepted: here, job .*, or HOST"):
        specify(coordinator=given)


def test_a_coordinator_in_a_job_is_on_a_node_that_has_no_name_yet(tmp_path, spec_file):
    spec = specify(
        coordinator="job", launcher="slurm", nodes=2, job_dir=tmp_path, python="/env", ssh="ssh -v"
    )
    assert spec.is_coordinator_in_job
    assert (spec.coordinator.name, spec.coordinator.ssh) == ("job", ("ssh", "-v"))
    assert [host.python for host in spec.hosts] == ["/env"] * 2
    assert spec.batch.directory == str(tmp_path)
    path = spec_file('coordinator = "job"\n[batch]\nsystem = "pbs"\nnodes = 1\n')
    assert specify(spec=path).is_coordinator_in_job
    with pytest.raises(UsageError, match="job directory"):
        specify(coordinator="job", launcher="slurm", nodes=2, job_dir="/no/such")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"launcher": "auto"},
        {"launcher": "mpi", "nodes": 2},
        {"launcher": "sge", "nodes": 2},
        {"launcher": "kubernetes", "nodes": 2},
        {"hosts": "far:1"},
        {"hosts": "far:1", "launcher": "slurm"},
    ],
)
def test_a_coordinator_in_a_job_wants_a_job_that_is_submitted_for_it(given, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "7")  # around us, with nodes of its own
    monkeypatch.setenv("SLURM_JOB_NODELIST", "a,b")
    with pytest.raises(UsageError, match=r"coordinator 'job' .*--launcher slurm\|pbs\|lsf"):
        specify(**given, coordinator="job")


def test_what_is_installed_comes_from_the_machine_of_the_coordinator():
    with pytest.raises(UsageError, match="install"):
        specify("far:1", coordinator="far", install=True)


def test_a_job_is_looked_at_where_the_coordinator_is():
    spec = specify(coordinator="far", launcher="slurm", nodes=2, slots=1, job_dir="/scratch/there")
    assert spec.batch.directory == "/scratch/there"
