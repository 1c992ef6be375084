import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.communicator_choice import (
    SYSTEM,
    Choice,
    HostDevices,
    choose_communicator,
)

READY = {"cupy": "14.2.0", "nccl": "2.30.7", "nccl4py": "0.6.0", "driver": "570.86.15"}
NO_GPU = HostDevices(4)


def ready(ranks=2, devices=("0", "1"), **versions):
    """A host on which NCCL runs; a version of None is of a package that is missing."""
    found = {k: v for k, v in {**READY, **versions}.items() if v is not None}
    return HostDevices(ranks, devices, found)


def choose(asked="auto", oversubscribe=False, **hosts):
    return choose_communicator(asked, hosts, oversubscribe)


def refusal(asked, oversubscribe=False, **hosts):
    with pytest.raises(UsageError) as caught:
        choose(asked, oversubscribe, **hosts)
    return str(caught.value)


def note(*given, **hosts):
    choice = choose(*given, **hosts)
    assert choice.kind == "ring"
    (text,) = choice.notes
    return text


# --- auto ---


def test_nccl_is_chosen_where_every_host_can_do_it():
    assert choose(a=ready(), b=ready(1)) == Choice("nccl")


def test_nccl_of_the_system_is_as_good_as_a_package():
    assert choose(a=ready(nccl=SYSTEM), b=ready()) == Choice("nccl")


def test_the_python_binding_of_nccl_is_only_advised():
    assert choose(a=ready(nccl4py=None)) == Choice("nccl")


def test_without_any_gpu_ring_is_chosen_and_not_worth_a_word():
    assert choose(a=NO_GPU, b=HostDevices(2, versions=READY)) == Choice("ring")


def test_one_host_without_a_gpu_makes_it_ring_and_is_named():
    assert note(a=ready(), b=NO_GPU, c=NO_GPU) == (
        "comm is ring, in the memory of the hosts, not nccl: b, c: it has no GPU"
    )


def test_gpus_that_cannot_be_asked_are_told_with_the_reason():
    host = HostDevices(4, gpu_problem="the package nvidia-ml-py, which counts them, is missing")
    assert note(a=host).endswith(
        "a: no GPU is found (the package nvidia-ml-py, which counts them, is missing)"
    )


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({"cupy": None}, "CuPy is missing (pip install cupy-cuda12x)"),
        ({"nccl": None}, "NCCL is missing (pip install nvidia-nccl-cu12)"),
        (
            {"cupy": None, "nccl": None, "nccl4py": None},
            "CuPy and NCCL are missing (pip install cupy-cuda12x nvidia-nccl-cu12 nccl4py)",
        ),
        ({"cupy": None, "driver": "580.65.06"}, "(pip install cupy-cuda13x)"),
        ({"cupy": None, "driver": "1000.1"}, "(pip install cupy-cuda13x)"),
        ({"nccl": None, "driver": None}, "(pip install nvidia-nccl-cu12)"),
    ],
)
def test_what_is_missing_is_named_with_the_packages_that_the_driver_can_run(versions, words):
    assert words in note(a=ready(), b=ready(**versions))


def test_more_ranks_than_devices_make_it_ring_with_both_ways_out():
    assert note(a=ready(8), b=ready()) == (
        "comm is ring, in the memory of the hosts, not nccl: a: 8 ranks on 2 devices, so none has "
        "one of its own. Ask for a:2, or let ranks share devices with --oversubscribe"
    )


def test_ranks_that_may_share_devices_get_nccl():
    assert choose("auto", True, a=ready(8), b=ready()) == Choice("nccl")
    assert choose("auto", True, a=ready(8, nccl=SYSTEM)) == Choice("nccl")


def test_an_nccl_that_wants_a_device_for_each_rank_is_chosen_only_where_there_is_one():
    old = {"nccl": "2.29.7"}
    assert choose("auto", True, a=ready(**old)) == Choice("nccl")
    assert note("auto", True, a=ready(3, **old)).endswith(
        "a: NCCL 2.29.7 wants a device for each rank (2.30 lets them share)"
    )


def test_two_releases_of_nccl_do_not_meet():
    old = ready(nccl="2.27.5")
    assert note(a=ready(), b=ready(), c=old).endswith("c: its NCCL is 2.27.5, and 2.30.7 elsewhere")
    assert choose(a=ready(), b=HostDevices(1, (), {"nccl": "2.27.5"})).kind == "ring"


# --- nccl, asked for ---


def test_nccl_that_was_asked_for_is_granted_where_it_can_be():
    assert choose("nccl", a=ready(), b=ready(1)) == Choice("nccl")
    assert choose("nccl", True, a=ready(5)) == Choice("nccl")


def test_an_nccl_too_old_to_share_devices_is_told_and_granted_to_those_who_ask_for_it():
    hosts = {"a": ready(3, nccl="2.28.9"), "b": ready(nccl="2.28.9")}
    choice = choose("nccl", True, **hosts)
    assert choice.kind == "nccl"
    (text,) = choice.notes
    assert text.startswith("a: NCCL 2.28.9 wants a device for each rank")
    assert "NCCL_HOSTID" in text, "the way that such an NCCL has"
    assert choose("nccl", True, a=ready(nccl="2.28.9")) == Choice("nccl")
    assert choose("auto", True, **hosts).kind == "ring", "only a wish makes it a note"


def test_an_nccl_too_old_to_share_hides_no_reason_against_it():
    assert "b: it has no GPU" in refusal("nccl", True, a=ready(3, nccl="2.28.9"), b=NO_GPU)
    both = note("auto", True, a=ready(3, nccl="2.28.9", cupy=None))
    assert "CuPy is missing" in both
    assert "NCCL 2.28.9 wants a device for each rank" in both


def test_nccl_with_more_ranks_than_devices_is_refused_with_both_ways_out():
    assert refusal("nccl", a=ready(8), b=ready(), c=ready(3, ("0",))) == (
        "--comm nccl cannot be: a: 8 ranks on 2 devices, so none has one of its own; "
        "c: 3 ranks on 1 device, so none has one of its own. "
        "Ask for a:2, c:1, or let ranks share devices with --oversubscribe. "
        "Or choose --comm ring."
    )


def test_nccl_is_refused_with_every_host_and_all_its_reasons():
    text = refusal("nccl", a=NO_GPU, b=ready(4, cupy=None, nccl=None), c=ready(), d=NO_GPU)
    assert text == (
        "--comm nccl cannot be: a, d: it has no GPU; b: 4 ranks on 2 devices, so none has one of "
        "its own, CuPy and NCCL are missing (pip install cupy-cuda12x nvidia-nccl-cu12). "
        "Ask for b:2, or let ranks share devices with --oversubscribe. Or choose --comm ring."
    )


def test_sharing_devices_is_no_way_out_where_there_is_none():
    assert refusal("nccl", True, a=NO_GPU) == (
        "--comm nccl cannot be: a: it has no GPU. Or choose --comm ring."
    )


# --- the others ---


def test_gloo_wants_torch_everywhere():
    with_torch = HostDevices(2, versions={"torch": "2.13.0"})
    assert choose("gloo", a=with_torch, b=with_torch) == Choice("gloo")
    assert refusal("gloo", a=NO_GPU, b=with_torch, c=NO_GPU) == (
        "--comm gloo cannot be: torch is missing on a, c. Install it there (pip install torch), "
        "or choose --comm ring."
    )


@pytest.mark.parametrize("kind", ["ring", "none"])
def test_ring_and_none_are_granted_anywhere(kind):
    assert choose(kind, a=ready(), b=NO_GPU) == Choice(kind)


@pytest.mark.parametrize("kind", ["ring", "none"])
def test_that_ranks_have_no_device_of_their_own_is_told_with_any_communicator(kind):
    choice = choose(kind, a=ready(8), b=NO_GPU)
    assert choice.kind == kind
    assert choice.notes[0] == (
        "a: 8 ranks on 2 devices, so none has one of its own. Ask for a:2, or let ranks share "
        "devices with --oversubscribe"
    )
    assert choose(kind, True, a=ready(8)) == Choice(kind)
