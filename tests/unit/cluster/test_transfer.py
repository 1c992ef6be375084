import errno
import threading

import pytest

from jupyter_dist.cluster import transfer as moving
from jupyter_dist.cluster.transfer import ObjectTransfer, ProgressThrottle, check_kind
from jupyter_dist.control.memory_file import MemoryFile, can_open, map_frozen, write_to
from jupyter_dist.errors import ErrorCode, TransferError, UsageError
from jupyter_dist.model.transfer import pieces
from jupyter_dist.model.transfer.pieces import WINDOW_PIECES, cut
from jupyter_dist.protocol.messages import (
    CellWaiting,
    FileUnreachable,
    ObjectPulled,
    ObjectsPushed,
    PieceTaken,
    PulledPiece,
    PullObject,
    PushObjects,
    Refused,
    SendPiece,
    TransferMoved,
    WithdrawCell,
)
from jupyter_dist.protocol.objects import pack

BIG = bytes(range(256)) * 10


class Line:
    """A line to a coordinator that answers what `reply` gives for each message."""

    def __init__(self, reply):
        self.lock = threading.RLock()
        self.shares_memory = True
        self.sent = []
        self.most_under_way = 0
        self._reply = reply
        self._waiting = []

    def new_request_id(self):
        return "r1"

    def send(self, message, buffers=()):
        self.sent.append((message, [bytes(buffer) for buffer in buffers]))
        self._waiting += self._reply(message)
        under_way = sum(isinstance(answer, PieceTaken) for answer in self._waiting)
        self.most_under_way = max(self.most_under_way, under_way)

    def receive(self):
        assert self._waiting, "nothing more would ever come"
        while self._waiting:
            answer = self._waiting.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            yield answer if isinstance(answer, tuple) else (answer, [])


@pytest.fixture(autouse=True)
def _all_is_told_and_2000_bytes_are_much(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_BYTES", 100)
    monkeypatch.setattr(moving, "LARGE_FROM_BYTES", 2000)
    monkeypatch.setattr(moving, "TELL_AFTER_S", 0.0)
    monkeypatch.setattr(moving, "TELL_INTERVAL_S", 0.0)


def good(message):
    """Confirm pieces, and answer when the last one has come."""
    match message:
        case SendPiece(number=number):
            last = len(list(cut(pack("x", BIG))))
            done = [ObjectsPushed("r1", {})] if number == last else []
            return [PieceTaken("r1", number), *done]
        case PushObjects(sizes=()):
            return [ObjectsPushed("r1", {})]
        case PushObjects(file=file) if file:
            return [FileUnreachable("r1")]
        case _:
            return []


def test_a_small_push_is_one_message():
    line = Line(good)
    ObjectTransfer(line).push({"a": 1, "b": 2}, (0, 1))
    ((message, frames),) = line.sent
    assert (message.names, message.frame_counts, message.ranks) == (("a", "b"), (1, 1), (0, 1))
    assert len(frames) == 2


def test_a_large_push_goes_in_pieces_of_which_few_are_on_their_way():
    line, told = Line(good), []
    ObjectTransfer(line, on_moved=told.append).push({"x": BIG}, None)
    _, (head, none), *sent = line.sent
    frames = pack("x", BIG)
    assert (head.file, none) == ("", [])
    assert head.sizes == tuple(map(len, frames))
    assert [message.number for message, _ in sent] == list(range(1, len(sent) + 1))
    assert b"".join(data for _, (data,) in sent) == b"".join(frames)
    assert line.most_under_way == WINDOW_PIECES
    arrived = [moved.moved_bytes for moved in told if moved.where == told[-1].where]
    assert arrived == sorted(arrived)
    assert told[-1] == TransferMoved("r1", sum(head.sizes), sum(head.sizes), told[-1].where)
    line.sent.clear()
    ObjectTransfer(line).push({"x": BIG}, None)
    assert line.sent[0][0].file == "", "it is known by now that the coordinator cannot open it"


def test_a_large_push_lies_in_a_file_that_only_this_process_and_the_coordinator_hold():
    told, found = [], []

    def reply(request):
        found.append(map_frozen(request.file, request.sizes))
        return [ObjectsPushed("r1", {})]

    line = Line(reply)
    ObjectTransfer(line, on_moved=told.append).push({"x": BIG}, None)
    ((request, none),) = line.sent
    assert (found, none) == ([pack("x", BIG)], [])
    assert not can_open(request.file)
    assert told[-1] == TransferMoved("r1", sum(request.sizes), sum(request.sizes), moving.COPIED)


def test_without_memory_for_a_file_it_goes_in_pieces(monkeypatch):
    def write(_file, _frames, _on_moved):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(MemoryFile, "write", write)
    line = Line(good)
    ObjectTransfer(line).push({"x": BIG}, None)
    assert line.sent[0][0].file == ""
    assert isinstance(line.sent[-1][0], SendPiece)


def test_what_the_coordinator_says_meanwhile_is_passed_on():
    words, told = [], []
    far = TransferMoved("r1", 3, 10, "to a")
    other = CellWaiting("r0", "of another request")
    line = Line(lambda _: [other, CellWaiting("r1", "waits"), far, ObjectsPushed("r1", {})])
    ObjectTransfer(line, words.append, told.append).push({"a": 1}, None)
    assert (words, told) == (["waits"], [far])


def test_a_refusal_in_the_middle_ends_it():
    refusal = [Refused("r1", ErrorCode.USAGE_ERROR, "no")]
    line = Line(lambda message: refusal if isinstance(message, SendPiece) else [])
    line.shares_memory = False
    with pytest.raises(UsageError, match="no"):
        ObjectTransfer(line).push({"x": BIG}, None)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Refused("r1", ErrorCode.CELL_REFUSED, "no rank has it"), "cancelled: no rank has it"),
        (ObjectsPushed("r1", {}), "had ended"),
        (ObjectsPushed("r1", {2: "interrupted"}), "rank 2: interrupted; "),
        (KeyboardInterrupt(), "^$"),
    ],
)
def test_ctrl_c_takes_it_back_and_says_how_it_has_ended(answer, said):
    def reply(message):
        match message:
            case SendPiece(number=1):
                return [KeyboardInterrupt()]
            case WithdrawCell():
                return [CellWaiting("r1", "yet"), answer]
            case _:
                return []

    line = Line(reply)
    line.shares_memory = False
    words = []
    with pytest.raises(KeyboardInterrupt, match=said):
        ObjectTransfer(line, words.append).push({"x": BIG}, None)
    assert line.sent[-1][0] == WithdrawCell("r1")
    assert words == ["yet"]


def test_what_is_pulled_of_another_kind_is_named_with_its_rank():
    check_kind("x", float, {0: 1.0, 1: 2.5})
    with pytest.raises(TransferError, match=r"^rank 1: x is of type int, and float is asked for"):
        check_kind("x", float, {0: 1.0, 1: 2})


def test_ctrl_c_before_anything_is_sent_needs_no_answer():
    def press(_moved):
        raise KeyboardInterrupt

    line = Line(good)
    with pytest.raises(KeyboardInterrupt, match="is cancelled"):
        ObjectTransfer(line, on_moved=press).push({"x": BIG}, None)
    assert line.sent == []


def test_ctrl_c_before_the_file_is_opened_ends_it():
    def reply(message):
        return (
            [FileUnreachable("r1")] if isinstance(message, WithdrawCell) else [KeyboardInterrupt()]
        )

    with pytest.raises(KeyboardInterrupt, match="is cancelled"):
        ObjectTransfer(Line(reply)).push({"x": BIG}, None)


def test_what_ranks_give_comes_together_whichever_way_it_came():
    value = {"a": BIG, "empty": b""}
    frames = pack("x", value)
    sizes = tuple(map(len, frames))
    told = []

    def reply(message):
        assert message.ranks == (1, 4, 6)
        write_to(message.files[2], frames)
        yield TransferMoved("r1", 7, 0, "from 1 of 3 ranks")
        for piece in cut(frames):
            yield PulledPiece("r1", 1, len(frames[0])), [piece]
        yield ObjectPulled("r1", (4,), (1,), {}, {1: sizes, 6: sizes}), pack("x", "small")

    line = Line(reply)
    found = ObjectTransfer(line, on_moved=told.append).pull(PullObject("", "x", (1, 4, 6)))
    assert found == {1: value, 4: "small", 6: value}
    assert list(found) == [1, 4, 6]
    assert told[0].moved_bytes >= sum(sizes), "what lies in the file counts"
    request = line.sent[0][0]
    assert not any(map(can_open, request.files))


def test_what_a_rank_has_not_given_is_told():
    line = Line(lambda _: [ObjectPulled("r1", (), (), {}, {1: (3000,)})])
    with pytest.raises(TransferError, match="rank 1: "):
        ObjectTransfer(line).pull(PullObject("", "x", (1,)))


def test_all_ranks_get_a_file_where_all_are_asked():
    line = Line(lambda _: [ObjectPulled("r1", (), (), {})])
    assert ObjectTransfer(line).pull(PullObject("", "x"), world_size=3) == {}
    assert len(line.sent[0][0].files) == 3


def test_problems_of_ranks_are_raised():
    line = Line(lambda _: [ObjectPulled("r1", (), (), {2: "no 'x'"})])
    with pytest.raises(TransferError, match="rank 2: no 'x'"):
        ObjectTransfer(line).pull(PullObject("", "x"))


@pytest.mark.parametrize("expression", ["not an expression", "", "x = 1", "\0", "(" * 300])
def test_what_ranks_could_not_evaluate_is_not_sent(expression):
    line = Line(lambda _: [])
    with pytest.raises(UsageError):
        ObjectTransfer(line).pull(PullObject("", expression))
    assert line.sent == []


@pytest.mark.parametrize("name", ["not a name", "", "2x", "a.b", "rank", "comm"])
def test_a_name_that_python_or_the_cluster_does_not_leave_free_is_never_sent(name):
    line = Line(good)
    with pytest.raises(UsageError, match=f"'{name}' is "):
        ObjectTransfer(line).push({"x": 1, name: 2}, None)
    assert not line.sent


def test_nothing_is_told_early_or_too_often(monkeypatch):
    now_s, told = [100.0], []
    monkeypatch.setattr(moving, "TELL_AFTER_S", 0.5)
    monkeypatch.setattr(moving, "TELL_INTERVAL_S", 0.2)
    monkeypatch.setattr(moving, "monotonic", lambda: now_s[0])
    teller = ProgressThrottle("r1", told.append)
    for step in range(100):
        now_s[0] = 100.0 + step / 100
        teller.tell(step, 100, "to a")
    assert [moved.moved_bytes for moved in told] == [50, 70, 90]
