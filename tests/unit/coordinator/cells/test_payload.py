import pytest

from jupyter_dist.control.memory_file import MemoryFile
from jupyter_dist.coordinator.cells import payload as payloads
from jupyter_dist.coordinator.cells.payload import Payload, Placement
from jupyter_dist.model.transfer.pieces import offsets_in_file

FRAMES = [b"abc", b"", bytes(range(256)) * 3, b"xyz"]
SIZES = tuple(map(len, FRAMES))


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(payloads, "CHUNK_BYTES", 100)
    monkeypatch.setattr(payloads, "WINDOW_BYTES", 250)


def in_memory():
    file = MemoryFile.make()
    file.write(FRAMES)
    return Payload((), SIZES, file)


@pytest.fixture(params=["frames", "file"])
def payload(request):
    return Payload(FRAMES) if request.param == "frames" else in_memory()


def test_it_has_the_frames_and_the_file_that_they_make_up(payload):
    assert (payload.sizes, payload.size_bytes) == (SIZES, sum(SIZES))
    assert list(payload.frames()) == FRAMES
    whole = b"".join(payload.chunks())
    *offsets, end = offsets_in_file(SIZES)
    assert len(whole) == end
    for frame, offset in zip(FRAMES, offsets, strict=True):
        assert whole[offset : offset + len(frame)] == frame


def test_no_more_is_on_its_way_to_a_host_than_the_window_takes(payload, cluster):
    placement = Placement("a", "p1", payload, cluster.sender)

    def chunks():
        return [chunk for _, chunk in cluster.sender.commanded("place_chunk")]

    assert placement.advance()
    assert placement.advance()
    sent_bytes = sum(len(chunk.data) for chunk in chunks())
    assert payloads.WINDOW_BYTES <= sent_bytes < payloads.WINDOW_BYTES + 100 + 64
    while not chunks()[-1].is_last:
        placement.taken_bytes = sum(len(chunk.data) for chunk in chunks())
        assert placement.advance()
    assert b"".join(chunk.data for chunk in chunks()) == b"".join(payload.chunks())
    assert [chunk.is_last for chunk in chunks()].count(True) == 1
    placement.end()
    assert cluster.sender.commanded("remove_placed")[0][1].request_id == "p1"


def test_a_host_without_an_agent_gets_nothing(payload, cluster):
    cluster.sender.hosts_with_agents = set()
    assert not Placement("a", "p1", payload, cluster.sender).advance()
