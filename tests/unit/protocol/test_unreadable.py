"""Messages with something in them that the reader does not expect: kept as far as they go."""

import contextlib
import typing

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_dist.errors import ErrorCode, MalformedMessage
from jupyter_dist.protocol import messages, unreadable
from jupyter_dist.protocol.codec import (
    VERSION,
    encode,
    from_client,
    from_engine,
    to_client,
    to_engine,
)
from jupyter_dist.protocol.messages import (
    Answered,
    CellEvents,
    CellNote,
    CellOutput,
    CellResult,
    Completions,
    ControllerJoined,
    ErrorInfo,
    NoAnswer,
    NotReady,
    ObjectFetched,
    ObjectsStored,
    Output,
    RankFinished,
    Refused,
    RunCell,
    SubmitCell,
)
from tests.rubbish import KEYS, RUBBISH


class Name(str):
    """Text of a class of the user's."""

    __slots__ = ()


ANY_TEXT = RUBBISH | st.builds(Name, st.text(max_size=3))
OUTPUTS = st.builds(
    Output,
    st.just("display"),
    ANY_TEXT,
    st.dictionaries(KEYS, RUBBISH, max_size=3) | RUBBISH,
    st.dictionaries(KEYS, RUBBISH, max_size=3) | RUBBISH,
    ANY_TEXT,
)


@given(st.lists(OUTPUTS, max_size=3), ANY_TEXT, ANY_TEXT)
@settings(max_examples=300)
def test_whatever_user_code_puts_into_a_report_it_arrives(outputs, text, value):
    error = ErrorInfo(text, text, (text,))
    result = CellResult(1, "c", "raised", 0.5, value, error, tuple(outputs), (3, 4))
    arrived = from_engine().decode(encode(result))
    assert (arrived.rank, arrived.cell_id, arrived.status) == (1, "c", "raised")
    assert (arrived.duration_s, arrived.offsets) == (0.5, (3, 4))
    assert [output.kind for output in arrived.outputs] == ["display"] * len(outputs)


@given(RUBBISH, RUBBISH)
def test_so_does_an_answer_with_rubbish_in_it(one, other):
    said = Answered(2, "r", Completions((one, other), 0, 1))
    arrived = from_engine().decode(encode(said))
    assert arrived.request_id == "r"


def broken(message, **fields):
    """A message with other fields than its class has, encoded as it comes."""
    whole = msgspec.to_builtins(message, builtin_types=(bytes,))
    return [VERSION, msgspec.msgpack.encode({**whole, **fields})]


GOOD = {"kind": "stdout", "text": "one\n"}
BAD = {"kind": "display", "display_id": 5}


@pytest.fixture(autouse=True)
def fresh_log(monkeypatch):
    """Each test may log as much as a process may."""
    monkeypatch.setattr(unreadable, "_logged", iter(range(10**6)))


class TestReports:
    def test_what_a_rank_said_around_something_unreadable_is_kept(self, capsys):
        frames = broken(CellOutput(1, "c", ()), outputs=[GOOD, BAD, GOOD], offsets=(3, 4))
        said = from_engine().decode(frames)
        assert [output.kind for output in said.outputs] == ["stdout", "note", "stdout"]
        assert "display" in said.outputs[1].text
        assert "display_id" in said.outputs[1].text
        assert said.offsets == (3, 4)
        assert "display_id" in capsys.readouterr().err

    @pytest.mark.parametrize("outputs", [[BAD], 7, "x", {"a": 1}])
    def test_a_result_that_can_be_read_but_for_its_outputs_is_what_it_is(self, outputs):
        whole = CellResult(1, "c", "ok", 0.5, "7")
        result = from_engine().decode(broken(whole, outputs=outputs))
        assert (result.status, result.value_repr, result.error) == ("ok", "7", None)
        assert [output.kind for output in result.outputs] == ["note"]

    @pytest.mark.parametrize(
        "fields", [{"status": 7}, {"status": "fine"}, {"status": "raised", "error": [1]}]
    )
    def test_a_result_whose_end_cannot_be_read_is_no_success(self, fields):
        frames = broken(CellResult(1, "c", "ok", 0.5), duration_s="x", **fields)
        result = from_engine().decode(frames)
        assert result.status == "raised"
        assert result.error.ename == "MalformedMessage"

    @pytest.mark.parametrize("kind", [ObjectsStored, ObjectFetched, ControllerJoined, Answered])
    def test_what_answers_a_request_answers_it_with_the_problem(self, kind):
        field, value = ("answer", NoAnswer("")) if kind is Answered else ("problem", "")
        said = from_engine().decode(broken(kind(1, "r", value), **{field: 5}))
        assert (type(said), said.rank, said.request_id) == (kind, 1, "r")
        assert "Expected" in (said.answer.reason if kind is Answered else said.problem)

    def test_a_hello_that_cannot_be_read_is_one_that_is_not_ready(self):
        said = from_engine().decode(broken(messages.Hello(1, 3, 9), pid="x"))
        assert isinstance(said, NotReady)
        assert said.generation == 3

    def test_what_has_no_stand_in_says_what_it_is(self):
        with pytest.raises(unreadable.Unreadable) as caught:
            from_engine().decode(broken(messages.TaskBegan(1, "x"), label=5))
        assert caught.value.parts.kind == "TaskBegan"

    @given(st.data())
    @settings(max_examples=300)
    def test_whatever_is_wrong_with_a_report_nothing_but_a_wire_error_is_raised(self, data):
        kind = data.draw(st.sampled_from(typing.get_args(messages.ToCoordinator)))
        fields = {field: data.draw(RUBBISH) for field in kind.__struct_fields__}
        if data.draw(st.booleans()):
            fields["rank"] = 1
        try:
            body = msgspec.msgpack.encode({"type": kind.__name__, **fields}, enc_hook=repr)
        except (OverflowError, UnicodeEncodeError):
            return
        with contextlib.suppress(MalformedMessage):
            from_engine().decode([VERSION, body])


class TestWords:
    def test_events_around_an_unreadable_one_are_kept(self):
        events = [
            {"type": "RankOutput", "ranks": [1], "outputs": [GOOD, BAD]},
            {"type": "RankFinished", "rank": 1, "status": "ok", "duration_s": "x"},
            {"type": "RankFinished", "rank": 2, "status": 4, "duration_s": 1.0},
            {"type": "Nonsense"},
        ]
        said = to_client().decode(broken(CellEvents("c", (), is_last=True), events=events))
        output, *ended = said.events
        assert [each.kind for each in output.outputs] == ["stdout", "note"]
        assert isinstance(ended.pop(), CellNote)
        assert {type(each) for each in ended} == {RankFinished}
        assert [(each.rank, each.status) for each in ended] == [(1, "ok"), (2, "raised")]
        assert said.is_last

    def test_an_answer_that_cannot_be_read_refuses_what_was_asked(self):
        answer = messages.CellsListed("request-7", ())
        said = to_client().decode(broken(answer, cells=5))
        assert isinstance(said, Refused)
        assert (said.request_id, said.code) == ("request-7", ErrorCode.MALFORMED_MESSAGE)

    def test_what_answers_nobody_is_a_wire_error(self):
        with pytest.raises(MalformedMessage):
            to_client().decode([VERSION, b"\xc1"])


def test_a_request_or_an_order_is_never_read_in_part():
    """Half of one may mean something else: no ranks at all are all of them."""
    with pytest.raises(unreadable.Unreadable) as caught:
        from_client().decode(broken(SubmitCell("request-3", "x"), ranks=["all"]))
    assert caught.value.request_id == "request-3"
    with pytest.raises(unreadable.Unreadable) as caught:
        to_engine().decode(broken(RunCell("c", 1, "x", (0,)), code=5))
    assert caught.value.parts.read("cell_id", str, "") == "c"


def test_the_log_has_the_first_bytes_and_does_not_grow_without_end(capsys):
    error = unreadable.Unreadable(b"\xc1" * 5000, "not a message")
    for _ in range(3 * unreadable.LOGGED_MESSAGES):
        unreadable.log_unreadable(error)
    log = capsys.readouterr().err
    assert log.count("5,000 bytes") == unreadable.LOGGED_MESSAGES
    assert log.count("\n") == unreadable.LOGGED_MESSAGES + 1
    assert len(log) < 5 * unreadable.LOGGED_BYTES * unreadable.LOGGED_MESSAGES


def test_a_log_that_cannot_be_written_is_no_error(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    unreadable.log_unreadable(unreadable.Unreadable(b"\xc1", "not a message"))
