import pytest
from msgspec.structs import replace

from jupyter_dist.coordinator.deployment import Deployment
from jupyter_dist.coordinator.roster import Roster
from jupyter_dist.errors import UsageError
from jupyter_dist.model.communicator_choice import Choice
from jupyter_dist.model.interfaces import LOOPBACK, Interface
from jupyter_dist.model.spec import ClusterSpec, HostSpec
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


def test_each_rank_has_a_device_of_its_own_by_the_numbers_of_nvml():
    told = order_for("a", A, joined=FOUR)
    assert devices_of(told) == ["0", "1"]
    assert dict(told.env) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_without_devices_nothing_is_said_about_them():
    told = order_for("a", A)
    assert devices_of(told) == ["", ""]
    assert dict(told.env) == {}


def test_devices_that_were_asked_for_are_given_out_in_their_order():
    for joined in (FOUR, {}):
        told = order_for("a", replace(A, devices=(3, 1)), joined=joined)
        assert devices_of(told) == ["3", "1"]
        assert dict(told.env) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_what_the_agents_environment_shows_keeps_the_order_that_it_means():
    told = order_for("a", A, joined={"gpu_count": 4, "devices": ["3", "0"]})
    assert devices_of(told) == ["3", "0"]
    assert dict(told.env) == {}


def test_devices_that_the_user_has_made_visible_stay_visible_to_every_rank():
    host = replace(A, devices=(3, 1), env={"CUDA_VISIBLE_DEVICES": "2,0"})
    told = order_for("a", host, joined=FOUR)
    assert devices_of(told) == ["2", "0"]
    assert dict(told.env) == {"CUDA_VISIBLE_DEVICES": "2,0"}


def test_more_ranks_than_devices_have_none_of_their_own():
    host = replace(A, slots=5)
    told = order_for("a", host, joined=FOUR)
    assert devices_of(told) == [""] * 5
    assert dict(told.env) == {}
    told = order_for("a", replace(host, devices=(3, 1)), joined=FOUR)
    assert dict(told.env) == {"CUDA_VISIBLE_DEVICES": "3,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def test_ranks_that_share_devices_are_told_to_nccl_where_they_do():
    host = replace(A, slots=5)
    told = order_for("a", host, B, joined=FOUR, oversubscribe=True)
    assert devices_of(told) == ["0", "1", "2", "3", "0"]
    assert told.env["NCCL_MULTI_RANK_GPU_ENABLE"] == "1"
    told = order_for("b", host, B, joined=FOUR, oversubscribe=True)
    assert "NCCL_MULTI_RANK_GPU_ENABLE" not in told.env


def test_a_healed_rank_is_told_that_it_shares_a_device_with_one_that_runs_already():
    spec = specify(replace(A, slots=5), oversubscribe=True)
    told = order(*deploy(spec, a=FOUR), "a", ranks=(4,))
    assert devices_of(told) == ["0"]
    assert told.env["NCCL_MULTI_RANK_GPU_ENABLE"] == "1"


def test_ranks_without_devices_of_their_own_share_none():
    deployment, roster = deploy(specify(A), a=FOUR)
    told = deployment.order(roster.hosts["a"], roster.on_host("a"), 3, "nccl", ["", "", "0", "1"])
    assert "NCCL_MULTI_RANK_GPU_ENABLE" not in told.env


def test_what_the_user_says_to_nccl_about_sharing_counts():
    env = {"NCCL_MULTI_RANK_GPU_ENABLE": "0"}
    told = order_for("a", replace(A, slots=5), joined=FOUR, oversubscribe=True, env=env)
    assert told.env["NCCL_MULTI_RANK_GPU_ENABLE"] == "0"


def test_a_rank_may_have_several_devices_or_all():
    told = order_for("a", A, joined=FOUR, devices_per_engine=2)
    assert devices_of(told) == ["0,1", "2,3"]
    assert dict(told.env) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    told = order_for("a", replace(A, slots=0), joined=FOUR, devices_per_engine=0)
    assert devices_of(told) == ["0,1,2,3"]


def refusal(host, joined=None, **options):
    deployment, roster = deploy(specify(host, **options), **{host.name: joined or {}})
    with pytest.raises(UsageError) as caught:
        deployment.check_devices(roster)
    return str(caught.value)


def test_more_devices_for_each_rank_than_a_host_has_are_refused():
    assert refusal(replace(A, slots=3), FOUR, devices_per_engine=2) == (
        "a has 4 GPUs, and 3 ranks with 2 each want 6. Ask for a:2, or for --devices-per-engine 1."
    )
    assert "a has no GPU" in refusal(A, devices_per_engine=2)
    said = refusal(replace(A, slots=0), FOUR, devices_per_engine=3)
    assert "which --devices-per-engine 3 does not divide. Choose 1, 2, 4 or all" in said
    said = refusal(replace(A, slots=0), {**FOUR, "slots": 2}, devices_per_engine=0)
    assert "a: 2 ranks are asked for, and --devices-per-engine all means one" in said


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


def test_a_device_that_a_host_does_not_have_is_refused():
    deployment, roster = deploy(specify(replace(A, devices=(1, 4, 7))), a=FOUR)
    with pytest.raises(UsageError) as caught:
        deployment.check_devices(roster)
    assert str(caught.value) == (
        "a has no device 4, 7. It has: 0, 1, 2, 3. Correct its devices in the specification."
    )


@pytest.mark.parametrize("joined", [FOUR, {}], ids=["with NVML", "without"])
def test_devices_that_are_there_or_cannot_be_counted_are_accepted(joined):
    deployment, roster = deploy(specify(replace(A, devices=(1, 3)), B), a=joined)
    deployment.check_devices(roster)


def test_the_communicator_is_chosen_by_what_the_hosts_have_told():
    has_all = {**FOUR, "versions": {"cupy": "14.2.0", "nccl": "2.30.7"}}
    deployment, roster = deploy(specify(A, B), a=has_all, b=has_all)
    assert deployment.choose_communicator(roster) == Choice("nccl")
    deployment, roster = deploy(specify(A, B), a=has_all, b={"gpu_problem": "no NVML"})
    choice = deployment.choose_communicator(roster)
    assert choice.kind == "ring"
    assert "b: no GPU is found (no NVML)" in choice.notes[0]


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
    assert str(caught.value) == "a and b are the same machine (gpu7). Name it once: a:3."


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
    assert deployment.describe(roster) == (
        "numpy differs: 2.1.0 on the notebook's side, a; 1.26.4 on b",
    )


def test_hosts_that_have_not_told_their_versions_are_left_out(monkeypatch):
    monkeypatch.setattr(f"{Deployment.__module__}.list_versions", lambda: {"numpy": "2.1.0"})
    deployment, roster = deploy(specify(A, B), a={"versions": {"numpy": "2.1.0"}})
    assert deployment.describe(roster) == ()


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
