"""Breakpoints in cells that are known by their text."""

import json
import linecache
import threading

import pytest

from jupyter_dist.engine.debugging.dap.cell_breakpoints import CellBreakpoints
from jupyter_dist.engine.debugging.dap.conversation import Conversation
from jupyter_dist.model.ranks.source_files import ANY_NUMBER, write_file_name

CODE, OTHER = "x = 1\ny = 2\n", "x = 2\n"
NAME = write_file_name(ANY_NUMBER, CODE)
LINES = [{"line": 2}]


def file_of(number, code=CODE):
    return f"/dev/shm/demo/{write_file_name(number, code)}"


@pytest.fixture
def asked():
    return []


@pytest.fixture
def cells(asked):
    return CellBreakpoints(lambda content: asked.append(json.loads(content)))


def plan(cells, *lines, name=NAME):
    return cells.plan({"source": {"path": name}, "breakpoints": list(lines)})


def test_they_are_set_in_the_runs_that_were_and_answered_at_once(cells, asked, monkeypatch):
    for path in (file_of(3), file_of(5), file_of(4, OTHER)):
        monkeypatch.setitem(linecache.cache, path, (1, None, ["\n"], path))
    assert plan(cells, *LINES) == [{"verified": True, "line": 2}]
    assert [each["arguments"]["source"]["path"] for each in asked] == [file_of(3), file_of(5)]
    assert {each["command"] for each in asked} == {"setBreakpoints"}
    assert asked[0]["arguments"]["breakpoints"] == LINES


@pytest.mark.parametrize("name", ["/home/me/train.py", file_of(3), ""])
def test_a_request_for_one_file_is_not_theirs(cells, asked, name):
    assert plan(cells, *LINES, name=name) is None
    cells.on_file(file_of(3))
    assert asked == []


def test_the_next_run_waits_until_they_are_set(cells, asked):
    plan(cells, *LINES)
    running = threading.Thread(target=cells.on_file, args=(file_of(9),))
    cells._ask = lambda content: (asked.append(json.loads(content)), is_asked.set())
    is_asked = threading.Event()
    running.start()
    assert is_asked.wait(10)
    assert not cells.on_answer({"request_seq": 1})
    assert running.is_alive()
    answer = {"type": "response", "command": "setBreakpoints", "request_seq": asked[0]["seq"]}
    assert Conversation(cells).write(json.dumps(answer).encode()) == b"", "no client has asked"
    running.join(10)
    assert not running.is_alive()


def test_no_run_waits_without_breakpoints_of_its_own(cells, asked):
    plan(cells, *LINES)
    cells.on_file(file_of(9, OTHER))
    plan(cells)
    cells.on_file(file_of(9))
    assert asked == []


def test_a_run_that_waits_begins_when_the_debugger_has_gone(cells):
    plan(cells, *LINES)
    is_asked = threading.Event()
    cells._ask = lambda _content: is_asked.set()
    running = threading.Thread(target=cells.on_file, args=(file_of(9),))
    running.start()
    assert is_asked.wait(10)
    cells.end()
    running.join(10)
    assert not running.is_alive()
