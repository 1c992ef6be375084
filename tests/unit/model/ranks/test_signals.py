import signal
import sys

import pytest

from jupyter_dist.model.ranks import signals
from jupyter_dist.model.ranks.signals import RankSignal, from_the_wire, on_the_wire


@pytest.mark.skipif(sys.platform != "linux", reason="the numbers are those of Linux")
def test_the_numbers_are_those_of_linux():
    assert {each.name: each.value for each in RankSignal} == {
        each.name: each.value for each in signal.Signals
    }


@pytest.mark.parametrize(("here", "there"), [(0, 0), (9, 9), (7, 7)])
def test_on_linux_a_number_crosses_as_it_is(here, there):
    assert on_the_wire(here) == there


@pytest.mark.parametrize(
    ("name", "number"), [("SIGBUS", RankSignal.SIGBUS), ("SIGINFO", 10), ("SIGKILL", 9)]
)
def test_elsewhere_the_name_decides_and_what_linux_lacks_keeps_its_number(
    monkeypatch, name, number
):
    class Other:
        def __init__(self, number):
            self.name = name

    monkeypatch.setattr(signals.sys, "platform", "darwin")
    monkeypatch.setattr(signals.signal, "Signals", Other)
    assert on_the_wire(10 if name != "SIGKILL" else 9) == number


def test_what_is_to_be_sent_has_the_number_of_this_system(monkeypatch):
    assert from_the_wire(RankSignal.SIGURG) == signal.SIGURG
    monkeypatch.setattr(signals.sys, "platform", "darwin")
    monkeypatch.setattr(signals.signal, "SIGURG", 16)
    monkeypatch.delattr(signals.signal, "SIGSTKFLT")
    assert from_the_wire(23) == 16
    assert from_the_wire(16) == 16, "it has no such signal"
    assert from_the_wire(99) == 99
