import msgspec
import pytest

from jupyter_dist.collective.broken import Breakage
from jupyter_dist.collective.calls.call import Call, Signature, shape_text
from jupyter_dist.collective.ring.wire import (
    AGREED_BYTES,
    BREAKAGE_BYTES,
    HEADER_BYTES,
    pack_breakage,
    pack_header,
    unpack_breakage,
    unpack_header,
)
from jupyter_dist.errors import MalformedMessage


def called(operation, sequence, *about, **more):
    return Call(Signature(operation, *about, **more), sequence)


CALL = called("all_reduce", 17, "<f4", "4", "sum")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (CALL, "all_reduce(float32[4], sum) #17"),
        (called("broadcast", 2, "<i8", "3,4", root=1), "broadcast(int64[3,4], root=1) #2"),
        (called("send", 1, "|b1", "", root=3), "send(bool[], dest=3) #1"),
        (called("recv", 1, "<c8", "2", root=0), "recv(complex64[2], source=0) #1"),
        (called("barrier", 5), "barrier() #5"),
        (called("all_gather", 2, "bfloat16", "3"), "all_gather(bfloat16[3]) #2"),
        (called("barrier", 1, group="0,2"), "barrier() #1 in group 0,2"),
    ],
)
def test_a_call_reads_as_it_was_written(call, text):
    assert str(call) == text


def test_a_header_comes_back_as_it_went():
    header = pack_header(CALL, 9, 1 << 40, "In[5]:7")
    assert len(header) == HEADER_BYTES
    assert unpack_header(header) == (CALL, 9, 1 << 40, "In[5]:7")


def test_headers_of_one_call_agree_wherever_it_was_made():
    here, there = (pack_header(CALL, 9, 16, site) for site in ("In[5]:7", "In[5]:9"))
    assert here[:AGREED_BYTES] == there[:AGREED_BYTES]
    assert here != there


@pytest.mark.parametrize(
    "other",
    [
        called("all_gather", 17, "<f4", "4", "sum"),
        called("all_reduce", 18, "<f4", "4", "sum"),
        called("all_reduce", 17, "<f8", "4", "sum"),
        called("all_reduce", 17, "<f4", "2,2", "sum"),
        called("all_reduce", 17, "<f4", "4", "max"),
        called("all_reduce", 17, "<f4", "4", "sum", 0),
    ],
)
def test_headers_of_different_calls_differ(other):
    headers = [pack_header(call, 9, 16)[:AGREED_BYTES] for call in (other, CALL)]
    assert headers[0] != headers[1]


def test_bytes_that_are_no_header_are_refused():
    with pytest.raises(MalformedMessage, match=r"header.*GGGG"):
        unpack_header(b"G" * HEADER_BYTES)


def test_shapes_too_long_for_a_header_stay_different():
    shapes = [(10,) * 40 + (last,) for last in (1, 2)]
    texts = [shape_text(shape) for shape in shapes]
    assert texts[0] != texts[1]
    for text in texts:
        call = called("all_gather", 1, "<f4", text)
        assert unpack_header(pack_header(call, 1, 0))[0] == call


def test_a_breakage_comes_back_as_it_went():
    breakage = Breakage("mismatch", 1, "barrier() #1", 2, "barrier() #2")
    frame = pack_breakage(breakage)
    assert len(frame) == BREAKAGE_BYTES
    assert unpack_breakage(frame) == breakage


@pytest.mark.parametrize("odd", [(2,), tuple(range(0, 200, 2))])
def test_the_ranks_of_a_mismatch_come_back_unless_they_are_too_many_to_list(odd):
    breakage = Breakage("mismatch", odd[0], "barrier() #1", 1, "barrier() #2", odd, (1, 3))
    again = unpack_breakage(pack_breakage(breakage))
    assert again in (breakage, msgspec.structs.replace(breakage, ranks=(), peers=()))
    assert (again == breakage) == (len(odd) == 1)


def test_a_breakage_with_a_long_text_is_cut():
    breakage = unpack_breakage(pack_breakage(Breakage("failed", -1, "ä" * 1000)))
    assert breakage.rank == -1
    assert breakage.text == "ä" * 120


def test_bytes_that_are_no_breakage_are_refused():
    with pytest.raises(MalformedMessage, match=r"breakage.*\\xff"):
        unpack_breakage(b"\xff" * BREAKAGE_BYTES)
