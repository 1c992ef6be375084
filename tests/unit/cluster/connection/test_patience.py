import pytest

from jupyter_dist.cluster.connection import patience as patience_module
from jupyter_dist.cluster.connection.patience import Patience


@pytest.fixture
def waited(monkeypatch):
    """What Linux tells of the coordinator: seconds, to be set by a test."""
    told = {7: 100.0}
    monkeypatch.setattr(patience_module, "all_waited_s", lambda pid: told[pid])
    return told


def test_a_silence_counts_but_for_the_time_without_a_core(waited):
    patience = Patience(7)
    assert patience.count(0.5) == 0.5
    waited[7] += 3.0
    assert patience.count(4.0) == 1.0
    assert patience.count(12.0) == 9.0


def test_each_silence_counts_on_its_own(waited):
    patience = Patience(7)
    patience.count(1.0)
    waited[7] += 50.0
    assert patience.count(2.0) == 0.0
    assert patience.count(0.0) == 0.0
    assert patience.count(11.0) == 11.0


def test_threads_that_end_take_their_time_along(waited):
    patience = Patience(7)
    patience.count(1.0)
    waited[7] = 40.0
    assert patience.count(11.0) == 11.0
