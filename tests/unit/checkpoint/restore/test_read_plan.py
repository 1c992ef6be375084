"""Who reads which piece, and who sends it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.checkpoint.format.manifest import Piece
from jupyter_dist.checkpoint.restore.read_plan import make_plan
from jupyter_dist.errors import CheckpointDamaged

FILES = tuple(f"arrays-0000{index}.safetensors" for index in range(3))


def piece(key, nbytes=10, file=FILES[0]):
    offset = int.from_bytes(key.encode())
    return Piece(file=file, key=key, offset=offset, nbytes=nbytes, digest="", rank=0)


def played(plan, wanted, seen):
    """What each rank has in the end, by doing what the plan says."""
    has = [set(reads) for reads in plan.reads]
    for rank, reads in enumerate(plan.reads):
        assert {one.file for one in reads} <= set(seen[rank]), "reads what it does not see"
    for send in plan.sends:
        assert send.piece in has[send.sender], "sends what it has not read"
        for own in has:
            own.add(send.piece)
    return has


def test_what_all_want_is_read_once_and_sent():
    plan = make_plan([[piece("w")]] * 4, [FILES] * 4)
    assert [len(reads) for reads in plan.reads].count(1) == 1
    assert [send.piece.nbytes for send in plan.sends] == [10]


def test_replicated_pieces_are_shared_out_by_bytes():
    pieces = [piece("a", 100), piece("b", 40), piece("c", 30), piece("d", 30)]
    plan = make_plan([pieces] * 2, [FILES] * 2)
    assert sorted(plan.read_bytes(rank) for rank in range(2)) == [100, 100]


def test_what_a_rank_reads_for_itself_counts_when_work_is_shared_out():
    own, for_all = piece("own", 100), piece("all", 10)
    plan = make_plan([[own, for_all], [for_all]], [FILES] * 2)
    assert plan.sends[0].sender == 1


def test_one_rank_reads_all_by_itself():
    plan = make_plan([[piece("a"), piece("b")]], [FILES])
    assert plan.reads == ((piece("a"), piece("b")),)
    assert plan.sends == ()


def test_blocks_are_read_where_they_are_wanted():
    first, second = piece("a"), piece("b")
    plan = make_plan([[first], [first, second], [second]], [FILES] * 3)
    assert plan.reads == ((first,), (first, second), (second,))
    assert plan.sends == ()


def test_a_rank_that_does_not_see_a_file_gets_the_piece_from_one_that_does():
    plan = make_plan([[], [piece("a")]], [FILES, ()])
    assert plan.reads == ((piece("a"),), ())
    assert [send.sender for send in plan.sends] == [0]


def test_a_rank_that_wants_a_piece_itself_sends_it_rather_than_another():
    wanted = [[], [], [piece("a")], [piece("a")]]
    plan = make_plan(wanted, [FILES, FILES, FILES, ()])
    assert [send.sender for send in plan.sends] == [2]


def test_files_are_read_from_front_to_back_and_one_after_the_other():
    pieces = [piece("b", file=FILES[1]), piece("z"), piece("a", file=FILES[1]), piece("c")]
    plan = make_plan([pieces, []], [FILES, FILES])
    assert [(one.file, one.key) for one in plan.reads[0]] == [
        (FILES[0], "c"),
        (FILES[0], "z"),
        (FILES[1], "a"),
        (FILES[1], "b"),
    ]


def test_a_file_that_nobody_sees_is_named():
    with pytest.raises(CheckpointDamaged, match="arrays-00000"):
        make_plan([[piece("a")]], [FILES[1:]])


PIECES = [
    piece(key, nbytes, file)
    for key, nbytes, file in zip("abcdef", range(1, 7), FILES * 2, strict=True)
]


@given(
    st.integers(1, 5).flatmap(
        lambda size: st.tuples(
            st.lists(st.sets(st.sampled_from(PIECES)), min_size=size, max_size=size),
            st.lists(st.sets(st.sampled_from(FILES)), min_size=size, max_size=size),
        )
    )
)
def test_every_rank_gets_what_it_wants_whoever_sees_what(world):
    wanted, seen = world
    visible = set().union(*seen)
    wanted = [{one for one in own if one.file in visible} for own in wanted]
    plan = make_plan(wanted, seen)
    for own, has in zip(wanted, played(plan, wanted, seen), strict=True):
        assert own <= has
    asked = set().union(*wanted)
    assert {one for reads in plan.reads for one in reads} == asked, "nothing is read in vain"


@given(st.lists(st.sets(st.sampled_from(PIECES)), min_size=2, max_size=4))
def test_all_ranks_make_the_same_plan(wanted):
    seen = [FILES] * len(wanted)
    turned = [sorted(own, key=lambda one: one.key, reverse=True) for own in wanted]
    assert make_plan(wanted, seen) == make_plan(turned, seen)
