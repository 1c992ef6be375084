"""What differs for a debugger that is in a rank."""

import json
import linecache

import pytest

from jupyter_dist.engine.debugging.dap.cell_breakpoints import CellBreakpoints
from jupyter_dist.engine.debugging.dap.conversation import Conversation

CELL = "/dev/shm/demo/In_3_0a1b2c3d.py"


@pytest.fixture
def conversation():
    return Conversation(CellBreakpoints([].append))


def ask(conversation, command, seq=5, **arguments):
    request = {"seq": seq, "type": "request", "command": command, "arguments": arguments}
    told, answer = conversation.read(json.dumps(request).encode())
    return json.loads(told or b"{}"), json.loads(answer or b"{}")


def show_stack(conversation, *paths):
    frames = [{"source": {"path": path, "sourceReference": 0}} for path in paths]
    said = {"type": "response", "command": "stackTrace", "body": {"stackFrames": frames}}
    shown = json.loads(conversation.write(json.dumps(said).encode()))
    return [each["source"] for each in shown["body"]["stackFrames"]]


def test_nothing_ends_the_rank(conversation):
    told, answer = ask(conversation, "terminate")
    assert (told, answer["success"], answer["request_seq"]) == ({}, False, 5)
    told, _ = ask(conversation, "disconnect", terminateDebuggee=True)
    assert told["arguments"]["terminateDebuggee"] is False


def test_it_is_over_with_the_answer_to_the_disconnect(conversation):
    ask(conversation, "disconnect", seq=9)
    conversation.write(b'{"type": "event", "event": "continued"}')
    conversation.write(b'{"type": "response", "request_seq": 8}')
    assert not conversation.is_over
    conversation.write(b'{"type": "response", "request_seq": 9}')
    assert conversation.is_over


def test_output_of_the_rank_stays_in_its_cell(conversation):
    told, _ = ask(conversation, "attach", redirectOutput=True, justMyCode=False)
    assert told["arguments"]["redirectOutput"] is False
    assert told["arguments"]["justMyCode"] is False


def test_the_source_of_a_cell_is_read_from_the_rank(conversation, monkeypatch):
    source, other, again = show_stack(conversation, CELL, "/home/me/train.py", CELL)
    assert (source["name"], source["path"], again) == ("In[3]", CELL, source)
    assert other == {"path": "/home/me/train.py", "sourceReference": 0}
    monkeypatch.setitem(linecache.cache, CELL, (4, None, ["a = 1\n", "b = 2\n"], CELL))
    _, answer = ask(conversation, "source", sourceReference=source["sourceReference"])
    assert answer["body"]["content"] == "a = 1\nb = 2\n"
    monkeypatch.delitem(linecache.cache, CELL)
    _, answer = ask(conversation, "source", sourceReference=source["sourceReference"])
    assert not answer["success"]


def test_breakpoints_of_a_cell_are_set_in_its_file(conversation):
    (source,) = show_stack(conversation, CELL)
    told, _ = ask(conversation, "setBreakpoints", source=source, breakpoints=[{"line": 2}])
    assert told["arguments"]["source"] == {"name": "In[3]", "path": CELL}
    assert told["arguments"]["breakpoints"] == [{"line": 2}]


def test_all_else_crosses_as_it_is(conversation):
    content = b'{"seq": 1,  "type": "request", "command": "threads"}'
    assert conversation.read(content) == (content, b"")
    event = b'{"type":  "event", "event": "stopped"}'
    assert conversation.write(event) == event
    assert ask(conversation, "source", sourceReference=1)[1] == {}


def test_a_client_without_numbers_of_sources_asks_by_path(conversation, tmp_path):
    module = tmp_path / "train.py"
    module.write_text("a = 1\n")
    told, answer = ask(conversation, "source", source={"path": str(module)}, sourceReference=0)
    assert (told, answer["body"]["content"]) == ({}, "a = 1\n")
    missing = {"path": str(tmp_path / "none.py")}
    _, answer = ask(conversation, "source", source=missing, sourceReference=0)
    assert missing["path"] in answer["message"]
