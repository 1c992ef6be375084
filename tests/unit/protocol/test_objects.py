import sys

import numpy as np
import pytest

from jupyter_dist.errors import TransferError
from jupyter_dist.protocol.objects import pack, raise_problems, split_frames, unpack


class Stubborn:
    def __reduce__(self):
        raise RuntimeError("I stay here")


class Trojan:
    def __reduce__(self):
        return (int, ("not a number",))


@pytest.mark.parametrize("value", [None, 1, "text", {"a": [1, 2]}, (b"x",)])
def test_plain_data_comes_back_equal(value):
    assert unpack("x", pack("x", value)) == value


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


def test_a_column_slice_comes_back_equal():
    array = np.arange(12).reshape(3, 4)[:, 1:3]
    np.testing.assert_array_equal(unpack("x", pack("x", array)), array)


def test_an_empty_array_comes_back_empty():
    back = unpack("x", pack("x", np.empty((0, 3), "f4")))
    assert (back.shape, back.dtype) == ((0, 3), np.dtype("f4"))


def test_two_names_for_one_array_stay_one():
    array = np.arange(3)
    first, second = unpack("x", pack("x", [array, array]))
    assert first is second


def test_a_function_of_the_notebook_travels():
    offset = 5
    back = unpack("f", pack("f", lambda x: x + offset))
    assert back(1) == 6


def test_what_cannot_be_pickled_is_named():
    with pytest.raises(TransferError, match=r"'model' \(Stubborn\).*I stay here"):
        pack("model", Stubborn())


def test_what_cannot_be_rebuilt_is_named():
    with pytest.raises(TransferError, match=r"'x' arrived but cannot be rebuilt here: ValueError"):
        unpack("x", pack("x", Trojan()))


def test_torn_frames_are_refused():
    with pytest.raises(TransferError, match="'x'"):
        unpack("x", [b"\x80"])


def test_frames_of_several_objects_are_cut_apart():
    assert split_frames([b"a", b"b", b"c", b"d"], [1, 0, 3]) == [[b"a"], [], [b"b", b"c", b"d"]]


def test_objects_pushed_together_come_back_each_as_itself():
    packed = [pack("a", np.arange(3)), pack("b", "text"), pack("c", [np.ones(2), np.zeros(2)])]
    frames = [frame for piece in packed for frame in piece]
    a, b, c = split_frames(frames, [len(piece) for piece in packed])
    assert unpack("a", a).tolist() == [0, 1, 2]
    assert unpack("b", b) == "text"
    assert [part.tolist() for part in unpack("c", c)] == [[1, 1], [0, 0]]


class Ends:
    """Ends the interpreter when it is packed, or rebuilt."""

    def __init__(self, is_packed=False):
        self.is_packed = is_packed

    def __reduce__(self):
        if self.is_packed:
            raise SystemExit(3)
        return sys.exit, (3,)


def test_an_object_that_ends_the_interpreter_only_fails():
    with pytest.raises(TransferError, match=r"'x' \(Ends\) cannot be sent: SystemExit: 3"):
        pack("x", Ends(is_packed=True))
    with pytest.raises(TransferError, match="'x' arrived but cannot be rebuilt here: SystemExit"):
        unpack("x", pack("x", Ends()))


@pytest.mark.parametrize(
    ("problems", "text"),
    [
        ({0: "rank 0 has no 'x'"}, "rank 0 has no 'x'"),
        ({rank: f"rank {rank} has no 'x'" for rank in range(4)}, "ranks 0-3 have no 'x'"),
        ({1: "too large", 3: "too large"}, "ranks 1,3: too large"),
        ({1: "rank 1 is lost: code 7"}, "rank 1 is lost: code 7"),
        ({1: "rank 1 is lost: x", 2: "rank 2 is lost: x"}, "ranks 1-2 are lost: x"),
        ({1: "rank 2 is lost: x"}, "rank 1: rank 2 is lost: x"),
        (
            {0: "rank 0 has no 'x'", 2: "too large"},
            "rank 0 has no 'x' (rank 2 could not either)",
        ),
    ],
)
def test_what_ranks_could_not_do_is_said_once_with_all_of_them(problems, text):
    with pytest.raises(TransferError) as caught:
        raise_problems(problems)
    assert str(caught.value) == text


def test_nothing_is_raised_without_problems():
    raise_problems({})
