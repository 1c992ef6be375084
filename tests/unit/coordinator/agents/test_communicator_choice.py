import pytest

from jupyter_dist.coordinator.agents.communicator_choice import (
    Choice,
    HostDevices,
    choose_communicator,
)
from jupyter_dist.errors import UsageError
from jupyter_dist.probe.software import SYSTEM

READY = {"cupy": "14.2.0", "nccl": "2.30.7", "nccl4py": "0.6.0", "driver": "570.86.15"}
NO_GPU = HostDevices(4)


def ready(ranks=2, devices=("0", "1"), **versions):
    """A host on which NCCL runs; a version of None is of a package that is missing."""
    found = {k: v for k, v in {**READY, **versions}.items() if v is not None}
    return HostDevices(ranks, devices, found)


OLD = ready(3, nccl="2.28.9")
"""Its NCCL wants a device for each rank, and there are two."""


def choose(asked="auto", oversubscribe=False, **hosts):
    return choose_communicator(asked, hosts, oversubscribe)


def note(*given, kind="ring", **hosts):
    choice = choose(*given, **hosts)
    assert choice.kind == kind
    (text,) = choice.notes
    return text


@pytest.mark.parametrize(
    ("asked", "oversubscribe", "hosts"),
    [
        ("auto", False, {"a": ready(), "b": ready(1)}),
        ("auto", False, {"a": ready(nccl=SYSTEM), "b": ready()}),
        ("auto", False, {"a": ready(nccl4py=None)}),
        ("auto", True, {"a": ready(8), "b": ready()}),
        ("auto", True, {"a": ready(8, nccl=SYSTEM)}),
        ("auto", True, {"a": ready(nccl="2.29.7")}),
        ("nccl", False, {"a": ready(), "b": ready(1)}),
        ("nccl", True, {"a": ready(5)}),
        ("nccl", True, {"a": ready(nccl="2.28.9")}),
    ],
)
def test_nccl_is_chosen_where_every_host_can_do_it(asked, oversubscribe, hosts):
    assert choose(asked, oversubscribe, **hosts) == Choice("nccl")


def test_without_any_gpu_ring_is_chosen_and_not_worth_a_word():
    assert choose(a=NO_GPU, b=HostDevices(2, versions=READY)) == Choice("ring")


NO_NVML = HostDevices(4, gpu_problem="the package nvidia-ml-py, which counts them, is missing")


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (NO_GPU, "b, c: "),
        (NO_NVML, f"({NO_NVML.gpu_problem})"),
        (ready(cupy=None), "(pip install cupy-cuda12x)"),
        (ready(nccl=None), "(pip install nvidia-nccl-cu12)"),
        (
            ready(cupy=None, nccl=None, nccl4py=None),
            "(pip install cupy-cuda12x nvidia-nccl-cu12 nccl4py)",
        ),
        (ready(cupy=None, driver="580.65.06"), "(pip install cupy-cuda13x)"),
        (ready(cupy=None, driver="1000.1"), "(pip install cupy-cuda13x)"),
        (ready(nccl=None, driver=None), "(pip install nvidia-nccl-cu12)"),
        (ready(nccl="2.27.5"), "2.27.5"),
        (ready(8), "Ask for b:2, c:2, or let ranks share devices with --oversubscribe"),
    ],
)
def test_hosts_that_cannot_do_nccl_are_named_with_what_they_want(host, words):
    text = note(a=ready(), d=ready(), e=ready(), b=host, c=host)
    assert "b, c: " in text
    assert words in text


def test_two_releases_of_nccl_do_not_meet_also_where_one_is_on_a_host_without_devices():
    assert choose(a=ready(), b=HostDevices(1, (), {"nccl": "2.27.5"})).kind == "ring"


def test_an_nccl_too_old_to_share_devices_is_told_and_granted_to_those_who_ask_for_it():
    assert "NCCL 2.28.9" in note("auto", True, a=OLD)
    text = note("nccl", True, kind="nccl", a=OLD, b=ready(nccl="2.28.9"))
    assert "a: NCCL 2.28.9" in text
    assert "NCCL_HOSTID" in text, "the way that such an NCCL has"


def test_an_nccl_too_old_to_share_hides_no_reason_against_it():
    with pytest.raises(UsageError, match="b: "):
        choose("nccl", True, a=OLD, b=NO_GPU)
    both = note("auto", True, a=ready(3, nccl="2.28.9", cupy=None))
    assert "cupy-cuda12x" in both
    assert "NCCL 2.28.9" in both


def test_nccl_is_refused_with_every_host_and_all_its_reasons():
    with pytest.raises(UsageError) as caught:
        choose("nccl", a=NO_GPU, b=ready(4, cupy=None), c=ready(3, ("0",)), d=NO_GPU, e=ready())
    text = str(caught.value)
    assert "; e: " not in text
    for reason in ("a, d: ", "b: 4 ranks on 2 devices", "cupy-cuda12x", "c: 3 ranks on 1 device"):
        assert reason in text
    for way_out in (" b:2, c:1, ", " --oversubscribe. "):
        assert way_out in text
    assert text.endswith("--comm ring.")


def test_sharing_devices_is_no_way_out_where_there_is_none():
    with pytest.raises(UsageError) as caught:
        choose("nccl", True, a=NO_GPU)
    assert "--oversubscribe" not in str(caught.value)


def test_the_old_name_of_the_ring_gives_the_ring_with_a_note():
    assert "--comm ring" in note("gloo", a=ready(), b=NO_GPU)
    assert len(choose("gloo", a=ready(8)).notes) == 2, "that no rank has a device is a note too"


@pytest.mark.parametrize("kind", ["ring", "none"])
def test_that_ranks_have_no_device_of_their_own_is_told_with_any_communicator(kind):
    assert choose(kind, a=ready(), b=NO_GPU) == Choice(kind)
    assert "Ask for a:2, " in note(kind, kind=kind, a=ready(8), b=NO_GPU)
    assert choose(kind, True, a=ready(8)) == Choice(kind)
