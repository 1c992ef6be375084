import re

import pytest

from jupyter_dist.coordinator.certificates import common_name
from jupyter_dist.coordinator.guests import GuestBook, NotAdmitted
from jupyter_dist.launch.join_file import JOINER
from jupyter_dist.model.spec import is_host_name

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
def test_an_agent_with_the_certificate_of_its_host_is_admitted(host):
    assert GuestBook([host, "b"], 0).admit(certificate(host), host) == host


def test_it_may_come_back_under_its_name():
    book = GuestBook(["a"], 0)
    assert [book.admit(certificate("a"), "a") for _ in range(2)] == ["a", "a"]


def test_long_names_that_begin_alike_are_told_apart():
    long, longer = "n" * 100, "n" * 101
    assert "was not invited" in refusal(GuestBook([long, longer], 0), certificate(long), longer)


@pytest.mark.parametrize("wished", ["b", "c", "", JOINER])
def test_the_certificate_of_one_host_opens_no_other(wished):
    told = refusal(GuestBook(["a", "b"], 3), certificate("a"), wished)
    assert told == f"host {wished!r} was not invited"


def test_a_certificate_of_a_host_that_is_not_in_the_cluster_opens_nothing():
    assert "was not invited" in refusal(GuestBook(["a"], 1), certificate("c"), "c")


def test_an_agent_without_a_certificate_is_not_admitted():
    assert "was not invited" in refusal(GuestBook(["a"], 1), [], "a")


# --- agents that join by file ---


def test_those_that_join_bring_their_names():
    book = GuestBook([], 2)
    assert book.admit(BY_FILE, "gpu-7.local") == "gpu-7.local"
    assert not book.is_full
    assert book.admit(BY_FILE, "x") == "x"
    assert book.is_full


def test_a_name_that_is_taken_gets_a_number():
    book = GuestBook(["x-3"], 4)
    assert [book.admit(BY_FILE, "x") for _ in range(4)] == ["x", "x-2", "x-4", "x-5"]


def test_nobody_gets_the_name_of_a_host_that_was_invited():
    assert GuestBook(["a"], 1).admit(BY_FILE, "a") == "a-2"


def test_one_too_many_hears_who_has_joined():
    book = GuestBook(["a"], 2)
    book.admit(BY_FILE, "x")
    book.admit(BY_FILE, "x")
    told = refusal(book, BY_FILE, "y")
    assert told == "this join file is used up: 2 of 2 agents have joined (x, x-2)"


@pytest.mark.parametrize(
    "wished", ["", "a b", "-x", "a/b", "../x", "a\nb", "näme", "x" * 64, JOINER]
)
def test_a_name_that_no_host_can_have_is_refused_and_costs_no_place(wished):
    book = GuestBook([], 1)
    told = refusal(book, BY_FILE, wished)
    assert told == f"{wished!r} is no host name; give one with --name"
    assert book.admit(BY_FILE, "x") == "x"


def test_no_host_can_have_the_name_in_the_joiners_certificate():
    assert not is_host_name(JOINER)
    assert re.fullmatch(r"[ -~]{1,64}", JOINER), "a common name has 64 characters at most"
