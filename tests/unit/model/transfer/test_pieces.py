import pytest

from jupyter_dist.model.transfer import pieces
from jupyter_dist.model.transfer.pieces import Assembly, cut, join


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_BYTES", 4)


FRAMES = [b"", b"abcdefghij", b"", b"1234", b"x"]
SIZES = [len(frame) for frame in FRAMES]


def test_no_piece_goes_over_the_end_of_a_frame_and_nothing_is_copied():
    found = list(cut(FRAMES))
    assert [bytes(piece) for piece in found] == [b"abcd", b"efgh", b"ij", b"1234", b"x"]
    assert found[0].obj is FRAMES[1]


def test_pieces_make_the_frames_that_they_were_cut_from():
    assert join(list(cut(FRAMES)), SIZES) == FRAMES


def test_frames_are_made_of_what_comes_one_after_the_other():
    assembly = Assembly()
    for frame in FRAMES:
        for piece in cut([frame]):
            assembly.take(piece, len(frame))
    assert assembly.taken_bytes == sum(SIZES)
    frames = assembly.give(SIZES)
    assert frames == FRAMES
    frames[1][0] = 0  # a person may write into what was pulled


@pytest.mark.parametrize("lacking", [0, 1, 4])
def test_what_has_not_come_whole_is_not_given(lacking):
    with pytest.raises(ValueError, match="bytes"):
        join(list(cut(FRAMES))[:lacking], SIZES)


def test_a_piece_that_is_too_long_is_refused():
    assembly = Assembly()
    assembly.take(b"abc", 4)
    with pytest.raises(ValueError, match=r"\b2 bytes .*\b1 "):
        assembly.take(b"de", 4)


def test_any_buffer_can_be_cut():
    view = memoryview(bytearray(range(10))).cast("B")
    assert join(list(cut([view])), [10]) == [bytes(range(10))]
