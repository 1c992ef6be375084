"""Which devices ranks see, and which communicator they get, on hosts without a GPU."""

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import StartFailed
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.probe.gpus import count_gpus
from tests.facts import assert_tells

from .results import values

pytestmark = [
    pytest.mark.skipif(count_gpus() > 0, reason="this machine has GPUs"),
]

SEEN = (
    "import os\n"
    "tuple(os.environ.get(name) for name in ('CUDA_VISIBLE_DEVICES', 'CUDA_DEVICE_ORDER',"
    " 'NCCL_MULTI_RANK_GPU_ENABLE'))"
)


def seen(cluster):
    """What each rank sees of devices, their order, and sharing."""
    return [eval(text) for text in values(cluster.run(SEEN))]


def on(*devices, slots=0, **more):
    return (HostSpec("localhost", slots, devices=devices, **more),)


@pytest.fixture
def without_packages(first_of_all):
    """Make these distributions look missing in every interpreter that starts from now on."""

    def hide(*names):
        first_of_all(
            "import importlib.metadata as metadata\n"
            "real = metadata.version\n"
            "def version(name):\n"
            f"    if name in {names!r}:\n"
            "        raise metadata.PackageNotFoundError(name)\n"
            "    return real(name)\n"
            "metadata.version = version\n"
        )

    return hide


def refused(home, hosts, **options):
    """Why this start fails; nothing of it is left."""
    with pytest.raises(StartFailed) as caught:
        Cluster.start(hosts, timeout_s=90, **options)
    home.assert_nothing_left(within_s=1)
    return str(caught.value)


# --- what a start refuses ---


def test_nccl_without_a_gpu_is_refused_naming_every_host(home, within):
    with within(15):
        text = refused(home, "localhost:1,127.0.0.1:1", comm="nccl", one_machine=True)
    assert_tells(text, "--comm nccl", ": localhost, 127.0.0.1: ", "no GPU", "--comm ring")


@pytest.mark.slow
def test_nccl_with_more_ranks_than_devices_is_refused_with_both_ways_out(home):
    text = refused(home, on(0, 1, slots=4), comm="nccl")
    assert "localhost: 4 ranks on 2 devices" in text
    assert_tells(text, "localhost:2", "--oversubscribe")


def test_devices_that_a_host_cannot_give_to_each_rank_are_refused(home):
    text = refused(home, on(3, 1, 0), devices_per_engine=2)
    assert_tells(text, "localhost has 3 GPUs", "--devices-per-engine 2 ")


def test_the_old_name_of_the_ring_gives_the_ring_with_a_note(start):
    cluster = start("localhost:2", comm="gloo")
    assert values(cluster.run("comm.kind")) == ["'ring'"] * 2
    assert any("--comm ring" in note for note in cluster.notes)


# --- what ranks see ---


def test_each_rank_sees_the_device_of_its_place_and_no_other(start, without_packages):
    without_packages("cupy-cuda12x", "cupy-cuda13x", "cupy")
    cluster = start(on(3, 1))
    assert seen(cluster) == [("3", "PCI_BUS_ID", None), ("1", "PCI_BUS_ID", None)]
    (note,) = (text for text in cluster.notes if text.startswith("comm is ring"))
    assert "localhost: CuPy" in note
    assert values(cluster.run("comm.kind")) == ["'ring'"] * 2


@pytest.mark.slow
def test_an_engine_that_is_spawned_sees_its_device_as_well(start):
    cluster = start(on(3, 1), start_method="spawn", comm="ring")
    assert [devices for devices, *_ in seen(cluster)] == ["3", "1"]
    assert not any("device" in note for note in cluster.notes)


def test_ranks_that_share_devices_take_turns(start):
    cluster = start(on(3, 1, slots=3), comm="ring", oversubscribe=True)
    assert seen(cluster) == [(device, "PCI_BUS_ID", "1") for device in ("3", "1", "3")]


def test_a_rank_may_see_several_devices_or_all(start):
    cluster = start(on(3, 1, 0, 2), comm="ring", devices_per_engine=2)
    assert [devices for devices, *_ in seen(cluster)] == ["3,1", "0,2"]
    cluster = start(on(3, 1), comm="ring", devices_per_engine="all")
    assert seen(cluster) == [("3,1", "PCI_BUS_ID", None)]
    cluster = start(None, devices_per_engine="all")
    assert seen(cluster) == [(None, None, None)], "one rank, also without a GPU"


def test_more_ranks_than_devices_see_all_that_was_asked_for_and_are_told(start):
    cluster = start(on(3, 1, slots=3), comm="ring")
    assert seen(cluster) == [("3,1", "PCI_BUS_ID", None)] * 3
    assert any("3 ranks on 2 devices" in note for note in cluster.notes)


def test_what_the_user_makes_visible_is_left_alone(start):
    cluster = start(on(3, 1, slots=2), comm="ring", env={"CUDA_VISIBLE_DEVICES": "0,1"})
    assert seen(cluster) == [("0,1", None, None)] * 2


def test_a_host_whose_gpus_cannot_be_counted_has_none_whatever_its_environment_says(
    start, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-x,GPU-y")
    cluster = start("localhost:2")
    assert seen(cluster) == [("GPU-x,GPU-y", None, None)] * 2
    assert values(cluster.run("comm.kind")) == ["'ring'"] * 2
    assert [engine.device for engine in cluster.topology().engines] == [None, None]
