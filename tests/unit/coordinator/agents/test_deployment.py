import pytest
from msgspec.structs import replace

from jupyter_dist.coordinator.agents.communicator_choice import Choice
from jupyter_dist.coordinator.agents.deployment import (
    RELAY_FROM_RANKS,
    RELAYS_FROM_RANKS,
    Deployment,
    describe_differences,
)
from jupyter_dist.coordinator.state.roster import Roster
from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.interfaces import LOOPBACK, Interface
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.probe.host_report import machine_id
from jupyter_dist.protocol import host_agent_pb2 as pb
from jupyter_dist.protocol.credentials import Credentials, KeyPair

CREDENTIALS = Credentials("server", KeyPair("public", "secret"))
A = HostSpec("a", 2, launcher="ssh")
B = HostSpec("b", 1, launcher="ssh")


def specify(*hosts, **options):
    return ClusterSpec(name="demo", hosts=hosts, **{"cwd": "/work", **options})


def deploy(spec, **joined):
    """A deployment, and a roster in which these hosts have joined and all ranks have seats."""
    roster = Roster(spec)
    for name, facts in joined.items():
        roster.take_joined(name, pb.Joined(**facts))
    for host in roster.hosts.values():
        host.interface = LOOPBACK
    roster.seat()
    return Deployment(spec, CREDENTIALS), roster


def order_for(name, *hosts, joined=None, **options):
    deployment, roster = deploy(specify(*hosts, **options), **{name: joined or {}})
    return order(deployment, roster, name)


def order(deployment, roster, name, ranks=None):
    """What a host is told about starting these of its ranks, or all."""
    engines = roster.on_host(name)
    started = engines if ranks is None else [roster[rank] for rank in ranks]
    devices = [engine.info.device for engine in engines]
    return deployment.order(roster.hosts[name], started, 3, "ring", devices)


# --- orders ---


def test_each_host_is_told_its_own_ranks():
    told = order_for("b", A, B)
    (place,) = told.places
    assert (place.rank, place.world_size, place.local_rank) == (2, 3, 0)
    assert (place.local_world_size, place.host_rank, place.host) == (1, 1, "b")
    assert [place.rank for place in order_for("a", A, B).places] == [0, 1]


def test_what_is_the_same_everywhere_stands_in_every_order():
    told = order_for("a", A, B, collective_timeout_s=7.5)
    assert (told.generation, told.communicator, told.collective_timeout_s) == (3, "ring", 7.5)
    keys = (told.server_public_key, told.own_public_key, told.own_secret_key)
    assert keys == ("server", "public", "secret")


@pytest.mark.parametrize(
    ("relays", "slots", "others", "machine", "has_relay"),
    [
        ("auto", RELAY_FROM_RANKS, RELAYS_FROM_RANKS - RELAY_FROM_RANKS, "there", True),
        ("auto", RELAY_FROM_RANKS, RELAYS_FROM_RANKS - RELAY_FROM_RANKS - 1, "there", False),
        ("auto", RELAY_FROM_RANKS - 1, RELAYS_FROM_RANKS, "there", False),
        ("auto", RELAY_FROM_RANKS, RELAYS_FROM_RANKS, machine_id(), False),
        ("all", 1, 1, machine_id(), True),
        ("none", RELAY_FROM_RANKS, RELAYS_FROM_RANKS, "there", False),
    ],
)
def test_hosts_have_relays_where_that_gains(relays, slots, others, machine, has_relay):
    hosts = HostSpec("a", slots, launcher="ssh"), HostSpec("b", others, launcher="ssh")
    told = order_for("a", *hosts, joined={"machine": machine}, relays=relays)
    assert bool(told.relay) == has_relay


@pytest.mark.parametrize(
    ("machine", "relays", "path"),
    [
        (machine_id(), "auto", "/run/a/home"),
        ("there", "auto", ""),
        (machine_id(), "all", ""),
    ],
)
def test_ranks_on_this_machine_are_told_a_unix_socket(machine, relays, path):
    joined = {"machine": machine, "log_dir": "/run/a"}
    assert order_for("a", A, joined=joined, relays=relays).home_path == path


def test_each_agent_that_joins_has_a_relay_with_another_secret():
    deployment, roster = deploy(specify(A, relays="all"), a={})
    first = order(deployment, roster, "a").relay
    assert order(deployment, roster, "a").relay == first
    roster.take_joined("a", pb.Joined())
    assert order(deployment, roster, "a").relay != first


def test_the_interface_of_the_data_path_is_told_by_name_and_address():
    deployment, roster = deploy(specify(A, B))
    roster.hosts["a"].interface = Interface("ib0", "10.1.0.1", 16)
    told = order(deployment, roster, "a")
    assert (told.interface, told.bind_host) == ("ib0", "10.1.0.1")
    told = order(deployment, roster, "b")
    assert (told.interface, told.bind_host) == ("", "127.0.0.1")


def test_a_hosts_variables_go_before_those_of_the_cluster():
    host = replace(A, env={"X": "host", "Y": "2"})
    told = order_for("a", host, B, env={"X": "cluster", "Z": "3"})
    assert dict(told.env) == {"X": "host", "Y": "2", "Z": "3"}
    assert dict(order_for("b", host, B, env={"X": "cluster"}).env) == {"X": "cluster"}


# --- devices ---

FOUR = {"gpu_count": 4, "devices": ["0", "1", "2", "3"]}


def devices_of(told):
    return [place.device for place in told.places]


NVML = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
USERS = {"CUDA_VISIBLE_DEVICES": "2,0"}
FIVE = replace(A, slots=5)


@pytest.mark.parametrize(
    ("host", "joined", "per_engine", "devices", "env"),
    [
        (A, FOUR, 1, ["0", "1"], NVML),
        (A, {}, 1, ["", ""], {}),
        (replace(A, devices=(3, 1)), FOUR, 1, ["3", "1"], NVML),
        (replace(A, devices=(3, 1)), {}, 1, ["3", "1"], NVML),
        # What the agent's environment shows keeps the order that it means.
        (A, {"gpu_count": 4, "devices": ["3", "0"]}, 1, ["3", "0"], {}),
        (replace(A, devices=(3, 1), env=USERS), FOUR, 1, ["2", "0"], USERS),
        (FIVE, FOUR, 1, [""] * 5, {}),
        (
            replace(FIVE, devices=(3, 1)),
            FOUR,
            1,
            [""] * 5,
            {"CUDA_VISIBLE_DEVICES": "3,1", **NVML},
        ),
        (A, FOUR, 2, ["0,1", "2,3"], NVML),
        (replace(A, slots=0), FOUR, 0, ["0,1,2,3"], NVML),
    ],
)
def test_ranks_have_devices_by_the_numbers_of_nvml_or_of_who_has_chosen_them(
    host, joined, per_engine, devices, env
):
    told = order_for("a", host, joined=joined, devices_per_engine=per_engine)
    assert (devices_of(told), dict(told.env)) == (devices, env)


SHARING = "NCCL_MULTI_RANK_GPU_ENABLE"


def test_ranks_that_share_devices_are_told_to_nccl_where_they_do():
    told = order_for("a", FIVE, B, joined=FOUR, oversubscribe=True)
    assert devices_of(told) == ["0", "1", "2", "3", "0"]
    assert told.env[SHARING] == "1"
    assert SHARING not in order_for("b", FIVE, B, joined=FOUR, oversubscribe=True).env
    env = {SHARING: "0"}
    told = order_for("a", FIVE, joined=FOUR, oversubscribe=True, env=env)
    assert told.env[SHARING] == "0", "what the user says counts"


def test_ranks_without_devices_of_their_own_share_none():
    deployment, roster = deploy(specify(A), a=FOUR)
    told = deployment.order(roster.hosts["a"], roster.on_host("a"), 3, "nccl", ["", "", "0", "1"])
    assert SHARING not in told.env


ANY = replace(A, slots=0)


@pytest.mark.parametrize(
    ("host", "joined", "per_engine", "data"),
    [
        (replace(A, slots=3), FOUR, 2, ("a has 4 ", " 3 ", " 2 ", "a:2", "per-engine 1.")),
        (A, {}, 2, ("a has no GPU",)),
        (ANY, FOUR, 3, ("--devices-per-engine 3 ", " 1, 2, 4 or all")),
        (ANY, {**FOUR, "slots": 2}, 0, ("a: 2 ranks", "--devices-per-engine all")),
        (replace(A, devices=(1, 4, 7)), FOUR, 1, ("a ", " 4, 7. ", " 0, 1, 2, 3. ")),
    ],
)
def test_devices_that_a_host_does_not_have_are_refused(host, joined, per_engine, data):
    deployment, roster = deploy(specify(host, devices_per_engine=per_engine), a=joined)
    with pytest.raises(UsageError) as caught:
        deployment.check_devices(roster)
    assert [each for each in data if each not in str(caught.value)] == []


def test_one_rank_with_several_devices_is_enough_for_nccl():
    has_all = {**FOUR, "versions": {"cupy": "14.2.0", "nccl": "2.30.7"}}
    for per_engine in (0, 4):
        spec = specify(replace(A, slots=0), B, devices_per_engine=per_engine)
        deployment, roster = deploy(spec, a=has_all, b=has_all)
        deployment.check_devices(roster)
        assert deployment.choose_communicator(roster) == Choice("nccl")


# --- frameworks ---


def test_every_host_is_told_when_jax_is_formed():
    assert [order_for("a", A).jax, order_for("a", A, jax="start").jax] == ["auto", "start"]


def test_jax_makes_so_many_devices_of_the_cores_unless_a_variable_says_how_many():
    assert "JAX_NUM_CPU_DEVICES" not in order_for("a", A).env
    assert order_for("a", A, cpu_devices=3).env["JAX_NUM_CPU_DEVICES"] == "3"
    env = {"JAX_NUM_CPU_DEVICES": "5"}
    assert order_for("a", A, cpu_devices=3, env=env).env["JAX_NUM_CPU_DEVICES"] == "5"


@pytest.mark.parametrize("joined", [FOUR, {}], ids=["with NVML", "without"])
def test_devices_that_are_there_or_cannot_be_counted_are_accepted(joined):
    deployment, roster = deploy(specify(replace(A, devices=(1, 3)), B), a=joined)
    deployment.check_devices(roster)


# --- directories ---


@pytest.mark.parametrize(
    ("host", "cwd", "is_required"),
    [
        (A, "/work", False),
        (replace(A, cwd="/there"), "/there", True),
        (replace(A, launcher="join"), "/work", False),
        (replace(A, launcher="local"), "/work", True),
        (replace(A, launcher="auto"), "/work", True),
    ],
)
def test_a_directory_must_exist_where_it_was_meant_for_that_host(host, cwd, is_required):
    told = order_for("a", host)
    assert (told.cwd, told.is_cwd_required) == (cwd, is_required)


@pytest.mark.parametrize(("own", "is_required"), [("", False), ("/there", True)])
def test_a_directory_of_another_machine_need_not_be_on_that_of_the_coordinator(own, is_required):
    host = replace(A, launcher="local", cwd=own)
    assert order_for("a", host, is_cwd_optional=True).is_cwd_required == is_required


# --- one machine under two names ---


def test_two_names_of_one_machine_are_refused_with_the_way_to_write_it():
    deployment, roster = deploy(
        specify(A, HostSpec("c", 4), B),
        a={"machine": "m", "hostname": "gpu7"},
        c={"machine": "other"},
        b={"machine": "m", "hostname": "gpu7"},
    )
    with pytest.raises(UsageError) as caught:
        deployment.check_machines(roster)
    assert "a and b " in str(caught.value)
    assert "(gpu7)" in str(caught.value)
    assert "a:3." in str(caught.value)


def test_a_rehearsal_of_many_hosts_on_one_machine_is_allowed():
    same = {"machine": "m"}
    deployment, roster = deploy(specify(A, B, one_machine=True), a=same, b=same)
    deployment.check_machines(roster)


def test_agents_that_join_may_share_a_machine():
    joiners = [HostSpec(f"join-{number}", launcher="join") for number in (1, 2)]
    same = {"machine": "m", "slots": 1}
    deployment, roster = deploy(specify(*joiners, A), x=same, y=same, a=same)
    deployment.check_machines(roster)


# --- what differs ---


def test_differences_are_told_against_the_notebook_too(monkeypatch):
    monkeypatch.setattr(f"{Deployment.__module__}.list_versions", lambda: {"numpy": "2.1.0"})
    deployment, roster = deploy(
        specify(A, B), a={"versions": {"numpy": "2.1.0"}}, b={"versions": {"numpy": "1.26.4"}}
    )
    (told,) = deployment.describe(roster)
    assert told.startswith("numpy ")
    deployment, roster = deploy(specify(A, B), a={"versions": {"numpy": "2.1.0"}})
    assert deployment.describe(roster) == (), "who has not told its versions is left out"


def test_ranks_of_the_same_python_are_compared_with_none(monkeypatch):
    monkeypatch.setattr(f"{Deployment.__module__}.list_versions", lambda: {"numpy": "2.1.0"})
    told = {"versions": {"numpy": "1.26.4"}}
    here = replace(A, launcher="local")
    for host, count in ((here, 0), (replace(here, python="/other/python"), 1)):
        deployment, roster = deploy(specify(host), a=told)
        assert len(deployment.describe(roster)) == count


# --- wishes for a network ---


def wishes(cluster_wish, a_wish=""):
    """What counts for a, which has ib0, and for b, which has only eth0."""

    def interface(name, address):
        return pb.Interface(name=name, address=address, prefix_length=24)

    deployment, roster = deploy(
        specify(replace(A, interface=a_wish), B, interface=cluster_wish),
        a={"interfaces": [interface("ib0", "10.1.0.1"), interface("eth0", "10.0.0.1")]},
        b={"interfaces": [interface("eth0", "10.0.0.2")]},
    )
    return {name: network.wish for name, network in deployment.list_networks(roster).items()}


@pytest.mark.parametrize(
    ("cluster_wish", "a_wish", "expected"),
    [
        ("", "", {"a": "", "b": ""}),
        ("eth0", "", {"a": "eth0", "b": "eth0"}),
        ("ib0", "", {"a": "ib0", "b": ""}),
        ("10.1.0.0/24", "", {"a": "10.1.0.0/24", "b": "10.1.0.0/24"}),
        ("eth0", "ib0", {"a": "ib0", "b": "eth0"}),
        ("", "ib0", {"a": "ib0", "b": ""}),
    ],
)
def test_a_hosts_own_wish_goes_before_that_of_the_cluster(cluster_wish, a_wish, expected):
    assert wishes(cluster_wish, a_wish) == expected


HERE = {"python": "3.11.2", "jupyter-dist": "1.0", "numpy": "2.1.0"}


@pytest.mark.parametrize(
    ("notebook", "hosts"),
    [
        (HERE, {"a": HERE, "b": dict(HERE)}),
        (HERE, {}),
        ({}, {}),
        (HERE, {"a": {**HERE, "python": "3.11.9"}}),
        ({}, {"a": {"scipy": "1"}, "b": {"scipy": "2"}}),
        # What only the notebook's side lacks it may not need.
        (HERE, {"a": {**HERE, "jax": "0.7.0"}, "b": {**HERE, "jax": "0.7.0"}}),
    ],
)
def test_sides_that_are_alike_are_not_worth_a_word(notebook, hosts):
    assert describe_differences(notebook, hosts) == ()


@pytest.mark.parametrize(
    ("package", "versions", "told"),
    [
        ("numpy", ("1.26.4", "2.1.0"), ("2.1.0 on the notebook's side, b", "1.26.4 on a")),
        ("python", ("3.12.2", "3.11.2"), ("3.11 on the notebook's side, b", "3.12 on a")),
        ("python", ("3.1.2", "3.11.2"), ("3.11 on the notebook's side, b", "3.1 on a")),
        ("jax", ("0.7.0", ""), ("0.7.0 on a", "none on b")),
        *(
            (package, ("1.0.0", "1.0.1"), ("1.0.0 on a", "1.0.1 on b"))
            for package in ("cupy", "torch", "nccl", "driver")
        ),
    ],
)
def test_each_package_that_differs_is_told_with_the_most_common_version_first(
    package, versions, told
):
    hosts = {name: {**HERE, package: each} for name, each in zip("ab", versions, strict=True)}
    assert describe_differences(HERE, hosts) == (f"{package} differs: {'; '.join(told)}",)


@pytest.mark.parametrize(
    ("count", "named"),
    [
        (6, "n0, n1, n2, n3, n4, n5"),
        (7, "n0, n1, n2, n3, n4 and 2 more"),
        (1000, "n0, n1, n2, n3, n4 and 995 more"),
    ],
)
def test_a_long_list_of_hosts_is_cut(count, named):
    hosts = {f"n{number}": HERE for number in range(count)}
    (told,) = describe_differences({}, {**hosts, "odd": {**HERE, "numpy": "1.0"}})
    assert told.endswith(f" on {named}; 1.0 on odd")
