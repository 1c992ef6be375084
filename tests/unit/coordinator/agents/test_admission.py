import re

import pytest

from jupyter_dist.coordinator.agents.admission import Admission, NotAdmitted
from jupyter_dist.coordinator.agents.certificates import common_name
from jupyter_dist.launch.files.join_file import JOINER
from jupyter_dist.model.spec.cluster_spec import is_host_name

BY_FILE = [JOINER.encode()]


def certificate(host):
    """The common names in the certificate of this host's agent, as gRPC gives them."""
    return [common_name(host).encode()]


def refusal(book, names, wished):
    with pytest.raises(NotAdmitted) as caught:
        book.admit(names, wished)
    return str(caught.value)


# --- agents that were started for a host ---


@pytest.mark.parametrize("host", ["a", "nodeA.example.org", "[fd00::1]", "n" * 200])
def test_an_agent_with_the_certificate_of_its_host_is_admitted_and_may_come_back(host):
    book = Admission([host, "b"], 0)
    assert [book.admit(certificate(host), host) for _ in range(2)] == [host, host]


@pytest.mark.parametrize(
    ("names", "wished"),
    [
        *((certificate("a"), wished) for wished in ("b", "c", "", JOINER)),
        (certificate("c"), "c"),
        (certificate("n" * 100), "n" * 101),
        ([], "a"),
    ],
)
def test_no_other_certificate_than_that_of_its_host_opens_a_cluster(names, wished):
    book = Admission(["a", "b", "n" * 100, "n" * 101], 3)
    assert refusal(book, names, wished).startswith(f"host {wished!r} ")


# --- agents that join by file ---


def test_those_that_join_bring_their_names():
    book = Admission([], 2)
    assert book.admit(BY_FILE, "gpu-7.local") == "gpu-7.local"
    assert not book.is_full
    assert book.admit(BY_FILE, "x") == "x"
    assert book.is_full


def test_a_name_that_is_taken_gets_a_number():
    book = Admission(["x-3"], 4)
    assert [book.admit(BY_FILE, "x") for _ in range(4)] == ["x", "x-2", "x-4", "x-5"]


def test_one_too_many_hears_who_has_joined():
    book = Admission(["a"], 2)
    book.admit(BY_FILE, "x")
    book.admit(BY_FILE, "x")
    told = refusal(book, BY_FILE, "y")
    assert " 2 of 2 " in told
    assert told.endswith(" (x, x-2)")


@pytest.mark.parametrize(
    "wished", ["", "a b", "-x", "a/b", "../x", "a\nb", "näme", "x" * 64, JOINER]
)
def test_a_name_that_no_host_can_have_is_refused_and_costs_no_place(wished):
    book = Admission([], 1)
    told = refusal(book, BY_FILE, wished)
    assert told.startswith(f"{wished!r} ")
    assert "--name" in told
    assert book.admit(BY_FILE, "x") == "x"


def test_no_host_can_have_the_name_in_the_joiners_certificate():
    assert not is_host_name(JOINER)
    assert re.fullmatch(r"[ -~]{1,64}", JOINER), "a common name has 64 characters at most"
