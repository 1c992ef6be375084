import socket

import pytest
from fakes.ras_server import FakeRas, communicator, rank, report

from jupyter_dist.model.ranks.ras import RasReport
from jupyter_dist.probe import nccl_ras
from jupyter_dist.probe.nccl_ras import ATTEMPTS, ask_ras

ADDRESS = "localhost:20001"
PAIR = report(communicator([rank(0, AllReduce=2), rank(1, AllReduce=1)]))
TALK = ["CLIENT PROTOCOL 2", "TIMEOUT 1", "SET FORMAT JSON", "VERBOSE STATUS"]


@pytest.fixture
def ras(monkeypatch):
    """Put a RAS behind every port."""
    found = FakeRas(PAIR)
    monkeypatch.setattr(socket, "create_connection", found.connect)
    monkeypatch.setattr(nccl_ras, "CONNECT_TIMEOUT_S", 0.1)
    yield found
    found.close()


def test_json_is_asked_for_and_read(ras):
    read = ask_ras(ADDRESS)
    assert [each.counts["AllReduce"] for each in read.communicators[0].ranks] == [2, 1]
    assert ras.heard == TALK
    assert ras.places == [("localhost", 20001)]


def test_a_release_without_json_is_reported_as_too_old_and_not_asked_further(ras):
    ras.report = None
    assert ask_ras(ADDRESS) == RasReport(is_too_old=True)
    assert ras.heard == TALK[:-1]


def test_a_process_that_is_stopped_is_passed_over(ras):
    ras.silent = 1
    assert ask_ras(ADDRESS) is not None
    assert len(ras.places) == 2
    ras.silent = 99
    assert ask_ras(ADDRESS) is None
    assert len(ras.places) == 2 + ATTEMPTS


def test_who_is_not_ras_is_left_alone(ras):
    ras.hello = "220 mail.example.org\n"
    assert ask_ras(ADDRESS) is None
    assert ras.heard == TALK[:1]


@pytest.mark.parametrize("hello", ["x" * 5000, "\xff\xfe\n", ""])
def test_whatever_answers_nothing_is_raised(ras, hello):
    ras.hello = hello
    assert ask_ras(ADDRESS) is None


def test_an_answer_that_does_not_end_is_not_read(ras, monkeypatch):
    monkeypatch.setattr(nccl_ras, "MOST_BYTES", 100_000)
    ras.report = {"filler": "x" * 200_000}
    assert ask_ras(ADDRESS) is None


def test_an_answer_that_does_not_come_is_not_waited_for(ras, monkeypatch):
    monkeypatch.setattr(
        ras, "_send", lambda end, said: said.startswith("SERVER") and end.sendall(said.encode())
    )
    assert ask_ras(ADDRESS, 0.1) is None


def test_where_nobody_listens_there_is_no_report(monkeypatch):
    def refuse(place, timeout_s):
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refuse)
    assert ask_ras("[::1]:20001") is None


@pytest.mark.parametrize("address", ["localhost", ":1", "localhost:", "localhost:x"])
def test_what_is_no_address_is_not_dialled(ras, address):
    assert ask_ras(address) is None
    assert ras.places == []


def test_an_address_of_ipv6_is_taken_out_of_its_brackets(ras):
    ask_ras("[::1]:20001")
    assert ras.places == [("::1", 20001)]
