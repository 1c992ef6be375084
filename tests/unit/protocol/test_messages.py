import msgspec
import pytest

from jupyter_dist.protocol.messages import ErrorInfo, Leave, Output, Ready, RunCell


def test_a_message_says_on_the_wire_what_it_is():
    told = msgspec.to_builtins(Ready(1, 2, ("a note",)))
    assert told == {"type": "Ready", "rank": 1, "generation": 2, "notes": ("a note",)}
    assert msgspec.to_builtins(Leave()) == {"type": "Leave"}


def test_a_message_cannot_be_changed():
    with pytest.raises(AttributeError):
        Ready(1, 2).rank = 3


def test_messages_of_the_same_content_are_equal():
    assert RunCell("c", 1, "x", (0,)) == RunCell("c", 1, "x", (0,))
    assert RunCell("c", 1, "x", (0,)) != RunCell("c", 2, "x", (0,))


def test_default_bundles_are_not_shared():
    one, other = Output("display"), Output("display")
    one.data["text/plain"] = "1"
    assert other.data == {}


def test_an_error_reads_like_python_writes_it():
    assert str(ErrorInfo("ZeroDivisionError", "division by zero")) == (
        "ZeroDivisionError: division by zero"
    )
    assert str(ErrorInfo("AssertionError", "")) == "AssertionError"
