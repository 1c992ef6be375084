import pytest

from jupyter_dist.model.transfer import pieces
from jupyter_dist.model.transfer.pieces import Assembly, cut, cut_with_offsets, offsets_in_file


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_BYTES", 4)


FRAMES = [b"", b"abcdefghij", b"", b"1234", b"x"]
SIZES = [len(frame) for frame in FRAMES]


def test_no_piece_goes_over_the_end_of_a_frame_and_nothing_is_copied():
    found = list(cut(FRAMES))
    assert [bytes(piece) for piece in found] == [b"abcd", b"efgh", b"ij", b"1234", b"x"]
    assert found[0].obj is FRAMES[1]


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
    assembly = Assembly()
    for piece in list(cut([FRAMES[1]]))[:lacking]:
        assembly.take(piece, len(FRAMES[1]))
    if lacking == 4:
        assert assembly.give([0, 10]) == [b"", FRAMES[1]]
        return
    with pytest.raises(ValueError, match="bytes"):
        assembly.give([0, 10])


def test_a_piece_that_is_too_long_is_refused():
    assembly = Assembly()
    assembly.take(b"abc", 4)
    with pytest.raises(ValueError, match=r"\b2 bytes .*\b1 "):
        assembly.take(b"de", 4)


def test_any_buffer_can_be_cut():
    view = memoryview(bytearray(range(10))).cast("H")
    assert b"".join(cut([view])) == bytes(range(10))
    assert [len(piece) for piece in cut([view], 7)] == [7, 3]


@pytest.mark.parametrize(
    ("sizes", "offsets"),
    [((), [0]), ((0,), [0, 0]), ((1, 64, 0, 65, 0), [0, 64, 128, 128, 256, 193]), ((3,), [0, 3])],
)
def test_frames_begin_aligned_in_a_file_that_ends_with_the_last_one(sizes, offsets):
    assert offsets_in_file(sizes) == offsets


def test_pieces_say_where_they_lie_and_how_large_their_frame_is():
    *offsets, end = offsets_in_file(SIZES)
    file = bytearray(end)
    for offset, frame_bytes, piece in cut_with_offsets(FRAMES):
        file[offset : offset + len(piece)] = piece
        assert frame_bytes in SIZES
    for frame, offset in zip(FRAMES, offsets, strict=True):
        assert file[offset : offset + len(frame)] == frame
