import ast

import pytest

from jupyter_dist.engine.debugging.planned_stops import find_line, planned
from jupyter_dist.errors import CollectiveMismatch, PeerFailed
from jupyter_dist.protocol.messages import Stops

CELL = """from __future__ import annotations
def f(x):
    'what it does'
    y = (x
         + 1)

    return y
total = 0
for i in range(3):
    total += f(i)
"""


@pytest.fixture
def hits(monkeypatch):
    """The lines at which a cell has stopped."""
    import sys

    lines = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: lines.append(sys._getframe(1).f_lineno))
    return lines


@pytest.fixture
def run(shell):
    seen = []

    def run_cell(code, **stops):
        with planned(Stops(**stops), shell, seen.append):
            shell.run_cell(code, store_history=False)
        return seen

    return run_cell


@pytest.mark.parametrize(
    ("line", "stops_at"), [(2, [2]), (4, [4] * 3), (5, [4] * 3), (6, [7] * 3), (9, [9]), (99, [])]
)
def test_it_stops_before_the_statement_on_a_line_or_the_next_one(run, hits, line, stops_at):
    run(CELL, line=line)
    assert hits == stops_at


def test_a_condition_is_looked_at_before_each_statement_and_may_name_what_is_not_there(run, hits):
    run(CELL, condition="total == 3 or i == 2")
    assert set(hits) == {4, 7, 10}
    hits.clear()
    run(CELL, line=4, condition="x == 1")
    assert hits == [4]


def test_the_cell_is_what_it_was_but_for_the_stops(run, hits, shell):
    run(CELL, condition="False")
    assert (hits, shell.user_ns["total"], shell.user_ns["f"].__doc__) == ([], 6, "what it does")
    assert not shell.ast_transformers
    shell.run_cell(CELL, store_history=False)
    assert hits == []


@pytest.mark.parametrize(
    ("stops", "error", "is_seen"),
    [
        ({"on_error": True}, ValueError("boom"), True),
        ({"on_error": True}, PeerFailed(1, "raised", "rank 1"), False),
        ({"on_mismatch": True}, ValueError("boom"), False),
        ({"on_mismatch": True}, CollectiveMismatch(0, "a", 1, "b", ("rank 0", "rank 1")), True),
        ({"line": 1}, ValueError("boom"), False),
    ],
)
def test_errors_are_looked_at_if_that_was_asked_for(run, shell, hits, stops, error, is_seen):
    shell.user_ns["error"] = error
    assert run("raise error", **stops) == [error] * is_seen
    assert shell.custom_exceptions == ()


def test_the_line_of_a_statement_is_its_first_one():
    tree = ast.parse(CELL)
    assert [find_line(tree, line) for line in (1, 3, 5, 6, 10, 11)] == [1, 3, 4, 7, 10, 0]
