from types import SimpleNamespace

import pytest

from jupyter_dist.errors import CellInterrupted, ClusterGone
from jupyter_dist.mcp.errands import Errand

pytest.importorskip("mcp.server.extension", reason="MCP's SDK is not installed")
from jupyter_dist.mcp import tasks


class Cell:
    """A cell that runs until it is ended by a test."""

    def __init__(self):
        self.is_done, self.problem = False, None

    @property
    def result(self):
        if self.problem is not None:
            raise self.problem
        return SimpleNamespace(raise_first=lambda: None) if self.is_done else None

    def end(self, problem=None):
        self.is_done, self.problem = True, problem

    def cancel(self):
        self.end(CellInterrupted("it was interrupted"))


@pytest.fixture
def now():
    return SimpleNamespace(s=0.0)


@pytest.fixture
def cell():
    return Cell()


@pytest.fixture
def task(cell, now, monkeypatch):
    monkeypatch.setattr(tasks, "tell_output", lambda *_: "what it has said")
    said = SimpleNamespace(note="ranks 0,2 wait\n\x1b[2Jin barrier")
    return tasks.CellTask(Errand("demo", "In[10001]", cell, said), lambda: now.s)


def test_while_it_runs_it_tells_who_is_waited_for_and_is_not_forgotten(task, now):
    now.s = 10 * tasks.KEPT_S
    seen = task.look()
    assert (seen["status"], seen["ttlMs"]) == ("working", None)
    assert seen["statusMessage"] == "In[10001] on cluster demo: ranks 0,2 wait in barrier"
    assert not task.is_forgotten


def test_the_end_is_what_the_call_would_have_answered_and_is_kept_for_a_while(task, cell, now):
    cell.end()
    now.s = 5.0
    seen = task.look()
    assert (seen["status"], seen["ttlMs"]) == ("completed", 1000 * (5 + tasks.KEPT_S))
    assert seen["result"] == {
        "content": [{"type": "text", "text": "what it has said"}],
        "isError": False,
    }
    now.s += tasks.KEPT_S - 1
    assert (task.look() == seen, task.is_forgotten) == (True, False)
    now.s += 2
    assert task.is_forgotten


def test_what_went_wrong_is_an_error_of_the_call_and_not_of_the_protocol(task, cell, monkeypatch):
    def gone(*_):
        raise ClusterGone("demo", "it ended")

    cell.end(ClusterGone("demo", "it ended"))
    monkeypatch.setattr(tasks, "tell_output", gone)
    seen = task.look()
    assert (seen["status"], seen["result"]["isError"]) == ("completed", True)
    assert "demo" in seen["result"]["content"][0]["text"]


@pytest.mark.parametrize("is_wanted", [True, False])
def test_only_what_was_cancelled_is_cancelled(task, cell, is_wanted):
    if is_wanted:
        task.cancel()
    else:
        cell.cancel()  # by a person
    assert task.look()["status"] == ("cancelled" if is_wanted else "completed")
