from contextlib import contextmanager

import pytest

from jupyter_dist.cluster.cells.followed_cells import Replay
from jupyter_dist.mcp import output
from jupyter_dist.protocol.messages import KeptCell, Output, RankFinished, RankOutput

ENDS = tuple(RankFinished(rank, "ok", 0.1) for rank in range(2))
SAID = RankOutput((0, 1), (Output("stdout", "hello\n"),))


class Cluster:
    """Replays one cell."""

    name, world_size = "demo", 2

    def __init__(self, events, *, is_running, by=""):
        self.cell = KeptCell("c", "In[3]", "x", (0, 1), 0.0, is_running, by=by)
        self.events = events

    def outputs(self):
        return (self.cell,)

    def replay(self, label, since):
        return Replay(self.cell, self.events[since:], 0, len(self.events))


@pytest.fixture
def tell(monkeypatch):
    def ask(cluster, since=-1, ranks=""):
        @contextmanager
        def visit(_name):
            yield cluster

        monkeypatch.setattr(output, "visit", visit)
        return output.tell_output("demo", "3", since, ranks).splitlines()

    return ask


def test_a_cell_that_runs_tells_what_it_has_said_and_a_mark(tell):
    head, who, *said = tell(Cluster((SAID,), is_running=True))
    assert head.startswith("In[3] on cluster demo: runs (2 running), began ")
    assert who == "sent by a person; mark 1"
    assert said[-1] == "| [0-1] hello"


@pytest.mark.parametrize("since", [-1, 0])
def test_a_cell_that_has_ended_tells_how(tell, since):
    head, who, *_ = tell(Cluster((SAID, *ENDS), is_running=False, by="AI agent x"), since)
    assert " has ended (2 done), " in head
    assert who == "sent by AI agent x; mark 3"


@pytest.mark.parametrize("since", [2, 3])
def test_what_was_told_before_the_mark_is_not_made_up(tell, since):
    head, *_, last = tell(Cluster((SAID, *ENDS), is_running=False), since)
    assert " has ended, began " in head
    assert last == "nothing new was said"
