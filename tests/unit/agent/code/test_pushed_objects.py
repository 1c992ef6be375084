from jupyter_dist.agent.code.pushed_objects import TELL_BYTES, PushedObjects
from jupyter_dist.protocol import host_agent_pb2 as pb

CHUNK_BYTES = 2 << 20


def chunk(data, request_id="r1", is_last=False):
    return pb.PlaceChunk(request_id=request_id, data=data, is_last=is_last)


def test_how_much_is_here_is_told_now_and_then_and_in_the_end_where_it_lies(tmp_path):
    placements = PushedObjects(tmp_path)
    count = 3 * TELL_BYTES // CHUNK_BYTES
    answers = [placements.add(chunk(bytes(CHUNK_BYTES))) for _ in range(count)]
    told = [answer.place_taken for answer in answers if answer is not None]
    assert [taken.taken_bytes for taken in told] == [TELL_BYTES, 2 * TELL_BYTES, 3 * TELL_BYTES]
    assert {taken.request_id for taken in told} == {"r1"}
    placed = placements.add(chunk(b"the end", is_last=True)).placed
    assert (placed.request_id, placed.problem) == ("r1", "")
    assert (tmp_path / "placed-r1").read_bytes() == bytes(count * CHUNK_BYTES) + b"the end"
    assert placed.path == str(tmp_path / "placed-r1")


def test_objects_do_not_disturb_each_other_and_can_be_removed(tmp_path):
    placements = PushedObjects(tmp_path)
    placements.add(chunk(b"a", "r1"))
    placements.add(chunk(b"b", "r2", is_last=True))
    assert (tmp_path / "placed-r1").read_bytes() == b"a"
    placements.remove("r2")
    placements.remove("r2")
    assert [path.name for path in tmp_path.iterdir()] == ["placed-r1"]


def test_without_room_the_reason_is_told_once_and_at_once_and_nothing_stays(tmp_path):
    placements = PushedObjects(tmp_path / "gone")
    assert "[Errno 2]" in placements.add(chunk(b"a")).placed.problem
    (tmp_path / "gone").mkdir()
    assert placements.add(chunk(b"b", is_last=True)) is None
    assert not list((tmp_path / "gone").iterdir())
    placements.remove("r1")
    assert placements.add(chunk(b"c", is_last=True)).placed.path
