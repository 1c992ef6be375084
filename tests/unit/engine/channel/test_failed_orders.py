import msgspec
import pytest

from jupyter_dist.engine.channel.failed_orders import refuse
from jupyter_dist.protocol.messages import (
    Answered,
    CellResult,
    ControllerJoined,
    ControllerLeft,
    NotReady,
    ObjectFetched,
    ObjectsStored,
)
from jupyter_dist.protocol.unreadable import Unreadable


def order(kind, **fields):
    return Unreadable(msgspec.msgpack.encode({"type": kind, **fields}), "Expected `str`")


def test_a_cell_that_cannot_be_read_has_raised_on_this_rank():
    result = refuse(order("RunCell", cell_id="cell-3", code=5), rank=2)
    assert isinstance(result, CellResult)
    assert (result.rank, result.cell_id, result.status) == (2, "cell-3", "raised")
    assert "Expected" in result.error.evalue


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("StoreObjects", ObjectsStored),
        ("FetchObject", ObjectFetched),
        ("Question", Answered),
        ("JoinController", ControllerJoined),
        ("LeaveController", ControllerLeft),
    ],
)
def test_who_asks_for_something_is_answered(kind, answer):
    answered = refuse(order(kind, request_id="r5"), rank=2)
    assert isinstance(answered, answer)
    assert (answered.rank, answered.request_id) == (2, "r5")
    assert "Expected" in str(answered)


@pytest.mark.parametrize("kind", ["Welcome", "Regroup"])
def test_a_generation_that_cannot_be_entered_is_told(kind):
    answer = refuse(order(kind, generation=4), rank=2)
    assert isinstance(answer, NotReady)
    assert answer.generation == 4


def test_what_nobody_waits_for_is_left_at_the_log():
    assert refuse(order("NoticeOver"), rank=2) is None
    assert refuse(Unreadable(b"\xc1", "no map"), rank=2) is None
