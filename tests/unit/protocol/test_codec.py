import contextlib

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.errors import MalformedMessage, VersionMismatch
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.protocol.codec import (
    VERSION,
    encode,
    from_client,
    from_engine,
    to_client,
    to_engine,
)
from jupyter_dist.protocol.messages import (
    CellOutput,
    CellResult,
    ErrorInfo,
    ObjectPulled,
    Output,
    Ready,
    StopCluster,
    Welcome,
)


def send(message):
    return from_engine().decode(encode(message))


def test_buffers_follow_the_message_untouched():
    array = np.arange(4.0)
    frames = encode(Ready(0, 1), [memoryview(array).cast("B"), b"tail"])
    assert from_engine().decode(frames) == Ready(0, 1)
    assert np.shares_memory(np.frombuffer(frames[2]), array)
    assert frames[3:] == [b"tail"]


@pytest.mark.parametrize("frames", [[], [VERSION]])
def test_too_few_frames_are_refused(frames):
    with pytest.raises(MalformedMessage, match=f"2 .*{len(frames)}"):
        from_engine().decode(frames)


def test_another_version_is_refused_before_anything_is_decoded():
    with pytest.raises(VersionMismatch) as caught:
        from_engine().decode([b"jupyter-dist/999", b"\xc1 not even MessagePack"])
    assert caught.value.ours == VERSION.decode()
    assert caught.value.theirs == "jupyter-dist/999"


def test_a_version_that_is_not_text_is_shown_shortened():
    with pytest.raises(VersionMismatch) as caught:
        from_engine().decode([b"\xff\x00" * 1000, b""])
    assert len(caught.value.theirs) <= 160
    assert caught.value.theirs.startswith("\\xff")


@given(st.data())
def test_no_bytes_raise_anything_but_malformed_message(data):
    whole = encode(CellOutput(0, "cell-1", (Output("stdout", "ä\n"),)))[1]
    broken = bytearray(whole[: data.draw(st.integers(1, len(whole)))])
    broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(MalformedMessage):
        from_engine().decode([VERSION, bytes(broken)])


def test_text_that_is_not_utf_8_is_refused():
    body = encode(StopCluster("x"))[1].replace(b"\xa1x", b"\xa1\xff")
    with pytest.raises(MalformedMessage):
        from_client().decode([VERSION, body])


def test_data_nested_without_end_is_refused():
    whole = encode(CellOutput(0, "c", (Output("display", data={"a": None}),)))[1]
    deep = whole.replace(b"\xa1a\xc0", b"\xa1a" + b"\x91" * 100_000 + b"\xc0")
    assert deep != whole
    with pytest.raises(MalformedMessage):
        from_engine().decode([VERSION, deep])


def test_numbers_as_keys_survive():
    answer = ObjectPulled("r", (0,), (1,), {3: "gone"})
    assert to_client().decode(encode(answer)) == answer


class TestWhatDoesNotFitOnTheWire:
    """A user can put anything into a display; it must not silence the rank."""

    @pytest.mark.parametrize(
        ("value", "arrives"),
        [
            ("\ud800 alone", "\\ud800 alone"),
            (2**70, str(2**70)),
            (np.arange(3), "array([0, 1, 2])"),
            ({"nested": [complex(1, 2)]}, {"nested": ["(1+2j)"]}),
            ({b"key": b"\xff"}, {b"key": b"\xff"}),
        ],
    )
    def test_crosses_as_text(self, value, arrives):
        said = CellOutput(1, "c", (Output("display", data={"a": value, "b": 1}),), (5, 6))
        assert send(said) == CellOutput(
            1, "c", (Output("display", data={"a": arrives, "b": 1}),), (5, 6)
        )

    def test_may_even_contain_itself(self):
        loop = []
        loop.append(loop)
        said = send(CellOutput(0, "c", (Output("display", data={"a": loop, "b": 1}),)))
        assert said.outputs[0].data["b"] == 1

    def test_includes_the_text_of_an_error(self):
        error = ErrorInfo("ValueError", "bad \udcff", ("line \udcff",))
        result = send(CellResult(0, "c", "raised", 1.5, error=error))
        assert result.error == ErrorInfo("ValueError", "bad \\udcff", ("line \\udcff",))
        assert result.duration_s == 1.5

    def test_leaves_keys_as_bytes(self):
        welcome = Welcome(1, RankInfo(0, 1, 0, 1, 0, "h\udcff"), "ring", {}, b"\xff" * 32)
        assert to_engine().decode(encode(welcome)).key == b"\xff" * 32


def test_what_fits_crosses_as_it_is():
    data = {"application/json": {"a": [1, 2.5, None, True, "ä", {"b": -1}]}}
    said = CellOutput(0, "c", (Output("display", data=data),))
    assert send(said) == said
    assert encode(said)[1] == msgspec.msgpack.encode(said)
