import os
import signal
import threading

import pytest

from jupyter_dist.agent.engines import signaller
from jupyter_dist.agent.engines.engine_processes import EngineTable
from jupyter_dist.agent.engines.signaller import Signaller
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.protocol import host_agent_pb2 as pb
from tests.patience import wait_until


class SilentTable(EngineTable):
    """Notes who would be signalled."""

    def __init__(self, folder):
        super().__init__(folder, folder)
        self.signalled = []

    def send_signal(self, engines, signal_number):
        self.signalled += [(engine, signal_number) for engine in engines]
        return engines


@pytest.fixture
def table(tmp_path):
    """Engines 0 and 1 of this process."""
    table = SilentTable(tmp_path)
    for engine in ("0", "1"):
        table.add(engine, os.getpid())
    return table


@pytest.fixture
def recorder(tmp_path):
    """Gives the recorder of an engine."""
    made = {}

    def find(engine):
        if engine not in made:
            made[engine] = CollectiveRecorder(tmp_path / f"rank-{engine}.collectives")
        return made[engine]

    yield find
    for each in made.values():
        each.close()


@pytest.fixture
def send(table):
    """Send SIGINT for a cell; gives an event that is set when it was told as done."""

    def send(cell_id="cell-2", engines=("0", "1")):
        told = threading.Event()
        told.engines = None

        def tell(event):
            told.engines = list(event.signal_sent.engines)
            told.set()

        command = pb.SendSignal(
            request_id="r", engines=engines, signal=signal.SIGINT, cell_id=cell_id
        )
        Signaller(table, tell).obey(command)
        return told

    return send


def test_ranks_that_run_the_cell_are_signalled_at_once(send, table, recorder):
    for engine in ("0", "1"):
        recorder(engine).begin_cell("In[2]", "cell-2")
    assert send().engines == ["0", "1"]
    assert table.signalled == [("0", signal.SIGINT), ("1", signal.SIGINT)]


@pytest.mark.parametrize("has_run", [True, False])
def test_a_rank_that_has_not_begun_the_cell_is_signalled_when_it_has(
    send, table, recorder, has_run
):
    recorder("0").begin_cell("In[2]", "cell-2")
    if has_run:
        recorder("1").begin_cell("In[1]", "cell-1")
        recorder("1").end_cell()
    else:
        recorder("1")
    told = send()
    assert not told.is_set()
    assert table.signalled == [("0", signal.SIGINT)]
    recorder("1").begin_cell("In[2]", "cell-2")
    assert told.wait(10)
    assert told.engines == ["0", "1"]


def test_a_rank_that_begins_the_cell_late_is_signalled_then_once_more(
    send, table, recorder, monkeypatch
):
    monkeypatch.setattr(signaller, "PATIENCE_S", 0.01)
    recorder("0")
    told = send(engines=("0",))
    assert told.wait(10)
    assert (told.engines, table.signalled) == (["0"], [("0", signal.SIGINT)]), "it may need it"
    recorder("0").begin_cell("In[2]", "cell-2")
    wait_until(lambda: table.signalled == 2 * [("0", signal.SIGINT)], 10, "it is interrupted")


def test_a_rank_that_does_not_begin_the_cell_is_not_waited_for_longer(
    send, table, recorder, monkeypatch
):
    monkeypatch.setattr(signaller, "PATIENCE_S", 0.01)
    monkeypatch.setattr(signaller, "MOST_PATIENCE_S", 0.02)
    recorder("0")
    assert send(engines=("0",)).wait(10)
    waiting = [thread for thread in threading.enumerate() if thread.name == "signals"]
    for thread in waiting:
        thread.join(10)
    recorder("0").begin_cell("In[2]", "cell-2")
    assert not any(thread.is_alive() for thread in waiting)
    assert table.signalled == [("0", signal.SIGINT)]


def test_a_rank_that_has_finished_the_cell_is_left_alone(send, table, recorder):
    recorder("0").begin_cell("In[2]", "cell-2")
    recorder("0").end_cell()
    assert send(engines=("0",)).engines == []
    assert table.signalled == []


def test_without_a_record_or_a_cell_the_signal_is_sent_at_once(send, table, recorder):
    assert send().engines == ["0", "1"]
    recorder("0").begin_cell("In[1]", "cell-1")
    assert send(cell_id="", engines=("0",)).engines == ["0"]


def test_a_rank_that_has_ended_is_not_waited_for(send, table, recorder):
    recorder("0")
    table.remove("0")
    assert send(engines=("0",)).is_set()
