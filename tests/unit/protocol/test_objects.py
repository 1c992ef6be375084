import sys

import numpy as np
import pytest

from jupyter_dist.errors import TransferError
from jupyter_dist.protocol.objects import pack, raise_problems, split_frames, unpack


class Reduced:
    """Is pickled as the test says."""

    def __init__(self, reduce):
        self.reduce = reduce

    def __reduce__(self):
        return self.reduce()


def stop():
    raise SystemExit(3)


def stay():
    raise RuntimeError("I stay here")


ARRAYS = [np.arange(12).reshape(3, 4)[:, 1:3], np.empty((0, 3), "f4")]


@pytest.mark.parametrize("value", [None, 1, "text", {"a": [1, 2]}, (b"x",), *ARRAYS])
def test_plain_data_and_arrays_come_back_equal(value):
    back = unpack("x", pack("x", value))
    np.testing.assert_equal(back, value)
    assert getattr(back, "dtype", None) == getattr(value, "dtype", None)


def test_an_array_is_not_copied_into_the_pickle():
    array = np.arange(100_000.0)
    body, buffer = pack("x", array)
    assert len(body) < 1000
    assert np.shares_memory(np.frombuffer(buffer), array)


def test_an_array_from_read_only_frames_is_writable_all_the_same():
    body, buffer = pack("x", np.arange(10.0))
    frame = bytes(buffer)
    back = unpack("x", [body, frame])
    back[0] = 99
    assert back.tolist() == [99, *range(1, 10)]
    assert np.frombuffer(frame)[0] == 0


def test_an_array_from_writable_frames_is_not_copied():
    body, buffer = pack("x", np.arange(10.0))
    frame = memoryview(bytearray(buffer))
    assert np.shares_memory(unpack("x", [body, frame]), np.frombuffer(frame))


def test_two_names_for_one_array_stay_one():
    array = np.arange(3)
    first, second = unpack("x", pack("x", [array, array]))
    assert first is second


def test_a_function_of_the_notebook_travels():
    offset = 5
    back = unpack("f", pack("f", lambda x: x + offset))
    assert back(1) == 6


@pytest.mark.parametrize(
    ("reduce", "text"), [(stay, "RuntimeError: I stay here"), (stop, "SystemExit: 3")]
)
def test_what_cannot_be_pickled_is_named(reduce, text):
    with pytest.raises(TransferError, match=rf"^'model' \(Reduced\) .*: {text}"):
        pack("model", Reduced(reduce))


@pytest.mark.parametrize(
    ("made_by", "text"),
    [((int, ("not a number",)), "ValueError"), ((sys.exit, (3,)), "SystemExit")],
)
def test_what_cannot_be_rebuilt_is_named(made_by, text):
    with pytest.raises(TransferError, match=f"^'x' .*: {text}"):
        unpack("x", pack("x", Reduced(lambda: made_by)))


def test_torn_frames_are_refused():
    with pytest.raises(TransferError, match="'x'"):
        unpack("x", [b"\x80"])


def test_objects_pushed_together_come_back_each_as_itself():
    packed = [pack("a", np.arange(3)), pack("b", "text"), pack("c", [np.ones(2), np.zeros(2)])]
    frames = [frame for piece in packed for frame in piece]
    a, b, nothing, c = split_frames(frames, [len(piece) for piece in (*packed[:2], [], packed[2])])
    assert nothing == []
    assert unpack("a", a).tolist() == [0, 1, 2]
    assert unpack("b", b) == "text"
    assert [part.tolist() for part in unpack("c", c)] == [[1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("problems", "text"),
    [
        (dict.fromkeys(range(4), "there is no 'x'"), "ranks 0-3: there is no 'x'"),
        ({1: "too large", 3: "too large"}, "ranks 1,3: too large"),
        ({1: "it is lost: code 7"}, "rank 1: it is lost: code 7"),
        ({0: "no 'x'", 2: "too large"}, "rank 0: no 'x' (rank 2 could not either)"),
    ],
)
def test_what_ranks_could_not_do_is_said_once_with_all_of_them(problems, text):
    with pytest.raises(TransferError) as caught:
        raise_problems(problems)
    assert str(caught.value) == text
    raise_problems({})
