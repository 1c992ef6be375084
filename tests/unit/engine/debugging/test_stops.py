import os
from contextlib import suppress

import pytest

from jupyter_dist.engine.debugging.stops import DebuggerStops
from jupyter_dist.protocol.messages import LeftDebugger, StoppedInDebugger


@pytest.fixture
def posted():
    return []


@pytest.fixture
def stops(posted):
    return DebuggerStops(lambda: 2, posted.append)


def test_a_stop_is_told_and_its_end_whatever_that_is(stops, posted):
    with suppress(KeyboardInterrupt), stops.stopped("In[5]:7"):
        assert posted == [StoppedInDebugger(2, "In[5]:7")]
        raise KeyboardInterrupt
    assert posted[1:] == [LeftDebugger(2)]


def test_of_several_stops_the_last_one_ends_it(stops, posted):
    with stops.stopped("In[5]:7"):
        with stops.stopped("train.py:1"):
            pass
        assert LeftDebugger(2) not in posted
    assert posted.count(LeftDebugger(2)) == 1


def test_a_forked_process_tells_nothing(stops, posted, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with stops.stopped("In[5]:7"):
        pass
    assert posted == []
