"""Messages in any order inside comm.group(), and communicators that are split off."""

import socket
from contextlib import closing
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_dist.collective.broken import Breakage
from jupyter_dist.collective.group import Group
from jupyter_dist.collective.ring.addresses import address_of, bind_listener
from jupyter_dist.collective.ring.transport import RingTransport
from jupyter_dist.model.hosts.addresses import split_address
from tests.matrix import only

from .ring_calls import RING, check, collectives, expected, given_by, step_of
from .ring_pool import Pool
from .ring_values import LAYOUTS, make

SIZES = (1, 2, 3, 4, 5)
SHAPES = ((), (0,), (3,), (7, 5), (1025,), (1 << 20,))
"""The last one is sent in many parts, each of which waits for the receiver."""
DTYPES = ("bool", "int16", "uint64", "float32", "complex64")
ROOM_LAYOUTS = ("plain", "strided", "transposed", "reversed", "read-only")


@pytest.fixture(scope="module")
def pool():
    """Five ranks for all tests of this module."""
    pool = Pool(max(SIZES))
    yield pool
    pool.close()


def pytest_generate_tests(metafunc):
    if "size" in metafunc.fixturenames:
        metafunc.parametrize("size", only((2, 5), SIZES, at_night=(3, 4)))


# --- messages ------------------------------------------------------------------------------------


def messages(size):
    """From whom to whom goes what; how the sent array lies in memory, and the room for it."""
    ranks, layouts = st.integers(0, size - 1), st.sampled_from(LAYOUTS[:-1])
    arrays = st.tuples(st.integers(0, 2**32), st.sampled_from(SHAPES), st.sampled_from(DTYPES))
    message = st.tuples(ranks, ranks, arrays, layouts, st.sampled_from(ROOM_LAYOUTS))
    return st.lists(message, max_size=8)


def sending(message):
    _source, dest, array, layout, _room = message
    step = {"do": "send", "on": "world", "array": array, "layout": layout, "out": None}
    return step | {"arguments": {"dest": dest}}


def receiving(message):
    source, _dest, array, _layout, room = message
    step = {"do": "recv", "on": "world", "array": None, "layout": "plain", "out": None}
    return step | {"arguments": {"source": source}, "room": array, "room_layout": room}


def both(send, receive):
    """One send_recv instead of a send and a recv."""
    sent = {word: send[word] for word in ("array", "layout")}
    arguments = send["arguments"] | receive["arguments"]
    return receive | sent | {"do": "send_recv", "arguments": arguments}


def nothing():
    """What comes of a send."""


def parts_of(rank, conversation):
    """What a rank has to do: with whom, the step, and what makes the result it should have."""
    for message in conversation:
        source, dest, array = message[:3]
        if source == rank:
            yield ("to", dest), sending(message), nothing
        if dest == rank:
            yield ("from", source), receiving(message), partial(make, *array)


def calls_of(rank, size, calls, on="world"):
    """What a rank does in these collectives."""
    for call in calls:
        yield "all", step_of(call, rank, size, on), partial(result_of, call, rank, size)


def result_of(call, rank, size):
    """What this rank should get."""
    inputs = [given_by(step_of(call, member, size)) for member in range(size)]
    return expected(call, inputs, rank)


def shuffled(draw, parts):
    """Put parts into any order that keeps those with one partner in theirs."""
    partners = draw(st.permutations([partner for partner, _step, _wanted in parts]))
    waiting = {
        partner: iter([part for part in parts if part[0] == partner]) for partner in set(partners)
    }
    return [next(waiting[partner]) for partner in partners]


def joined(draw, parts):
    """Make some neighbouring pairs of send and recv one call."""
    result = []
    for partner, step, wanted in parts:
        is_pair = result and (result[-1][0][0], partner[0]) == ("to", "from")
        if is_pair and draw(st.booleans()):
            result[-1] = ("both", both(result[-1][1], step), wanted)
        else:
            result.append((partner, step, wanted))
    return result


@st.composite
def group_blocks(draw, size):
    """For each rank its steps in a block, and what is expected of each."""
    conversation = draw(messages(size))
    calls = draw(st.lists(collectives(size), max_size=2))
    blocks = []
    for rank in range(size):
        parts = [*parts_of(rank, conversation), *calls_of(rank, size, calls)]
        parts = joined(draw, shuffled(draw, parts))
        blocks.append([(step, wanted) for _partner, step, wanted in parts])
    return blocks


def check_all(answers, wanted):
    assert len(answers) == len(wanted), answers
    for answer, result in zip(answers, wanted, strict=True):
        check(answer, result())


def test_no_order_of_messages_in_a_group_hangs(pool, size):
    @settings(RING, max_examples=40)
    @given(blocks=st.lists(group_blocks(size), min_size=1, max_size=2))
    def holds(blocks):
        programs = [
            [
                {"do": "group", "on": "world", "steps": [step for step, _wanted in block[rank]]}
                for block in blocks
            ]
            for rank in range(size)
        ]
        for rank, answers in enumerate(pool.run(programs)):
            check_all(answers, [wanted for block in blocks for _step, wanted in block[rank]])

    holds()


def test_messages_one_by_one_arrive_in_their_order(pool, size):
    @settings(RING, max_examples=40)
    @given(conversation=messages(size))
    def holds(conversation):
        parts = [list(parts_of(rank, conversation)) for rank in range(size)]
        programs = [[step for _partner, step, _wanted in part] for part in parts]
        for part, answers in zip(parts, pool.run(programs), strict=True):
            check_all(answers, [wanted for _partner, _step, wanted in part])

    holds()


# --- splits --------------------------------------------------------------------------------------


def groups_of(members, wishes):
    """Who comes together, in the order of their new ranks; members are ranks of the world."""
    found = {}
    for place, member in enumerate(members):
        color, key = wishes[member]
        if color is not None:
            found.setdefault(color, []).append((place if key is None else key, place, member))
    return [tuple(member for _key, _place, member in sorted(group)) for group in found.values()]


@st.composite
def split_plans(draw, size):
    """A split, a split of each group, and calls in all of them between those of the world.

    Gives for each rank its steps, and what is expected of each.
    """
    wish = st.tuples(st.none() | st.integers(0, 2) | st.just(2**40), st.none() | st.integers(-3, 3))
    world = tuple(range(size))
    programs = {rank: [] for rank in world}
    levels = []
    parents, parent_name = [world], "world"
    for name in ("child", "grandchild"):
        wishes = [draw(wish) for _rank in world]
        groups = [group for parent in parents for group in groups_of(parent, wishes)]
        for rank in (rank for parent in parents for rank in parent):
            color, key = wishes[rank]
            step = {"do": "split", "on": parent_name, "as": name, "color": color, "key": key}
            mine = [group for group in groups if rank in group]
            facts = (mine[0].index(rank), len(mine[0]), mine[0]) if mine else None
            programs[rank].append((step, facts))
        levels.append((name, groups))
        parents, parent_name = groups, name
    for _round in range(draw(st.integers(1, 3))):
        order = draw(st.permutations([("world", [world]), *levels]))
        for name, groups in order:
            for group in groups:
                add_calls(draw, programs, group, name)
    return [programs[rank] for rank in world]


def add_calls(draw, programs, group, name):
    """Let the members of a group call something, as often as this group likes."""
    calls = draw(st.lists(collectives(len(group)), max_size=2))
    for place, rank in enumerate(group):
        parts = [(step, wanted) for _all, step, wanted in calls_of(place, len(group), calls, name)]
        if parts and draw(st.booleans()):
            steps = [step for step, _wanted in parts]
            block = {"do": "group", "on": name, "steps": steps}
            parts = [(block, [wanted for _step, wanted in parts])]
        programs[rank] += parts


def test_groups_that_are_split_off_compute_side_by_side(pool, size):
    @settings(RING, max_examples=40)
    @given(plan=split_plans(size))
    def holds(plan):
        programs = [[step for step, _wanted in steps] for steps in plan]
        for answers, steps in zip(pool.run(programs), plan, strict=True):
            for step, wanted in steps:
                if step["do"] == "split":
                    assert answers.pop(0) == {"child": wanted}, step
                elif step["do"] == "group":
                    for result in wanted:
                        check(answers.pop(0), result())
                else:
                    check(answers.pop(0), wanted())
            assert answers == []

    holds()


def test_a_member_that_leaves_a_group_is_named_by_its_rank_in_the_cluster(pool):
    split = {"do": "split", "on": "world", "as": "child"}
    waiting = {"do": "recv", "on": "child", "raw": (1.0, 0)}
    programs = [[split | {"color": rank // 2, "key": -rank}] for rank in range(4)]
    programs[2].append(waiting)
    answers = pool.run(programs)
    assert answers[2][0] == {"child": (1, 2, (3, 2))}
    assert answers[2][1]["raised"] == "PeerFailed"
    assert answers[2][1]["text"].startswith("rank 3 "), answers[2]


def test_nobody_waits_at_the_door_of_a_split_that_failed():
    listener = bind_listener("127.0.0.1")
    peers = [address_of(listener)] * 2
    with closing(RingTransport(Group(0, 2, 1), listener, peers, b"the key")) as transport:
        address = split_address(transport.prepare_split())
        transport.leave(Breakage("left", 0, "was interrupted"))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)
