"""Memory that ranks share, between threads of one process."""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest

from jupyter_dist.collective.ring.memory.room import Room, open_room
from jupyter_dist.collective.ring.wire import HEADER_BYTES

SIZE = 3
WORDS = np.dtype("<u8")


@pytest.fixture
def ranks():
    """Rooms of all ranks, as they have them in processes of their own."""
    with ExitStack() as stack:
        fds = open_room(SIZE)
        rooms = [
            Room(fds if rank == 0 else [os.dup(fd) for fd in fds], rank, SIZE)
            for rank in range(SIZE)
        ]
        for room in rooms:
            stack.callback(room.close)
        yield rooms


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_the_last_to_arrive_is_told_so_and_the_bell_rings_once_for_each_other(ranks):
    for last in (2, 0, 1):
        early = [room for room in ranks if room.rank != last]
        assert [room.arrive() for room in early] == [False, False]
        assert not early[0].has_rung()
        assert early[0].find_late() == [last]
        assert ranks[last].arrive()
        assert [room.has_rung() for room in (*early, *early)] == [True, True, False, False]


def test_what_ranks_write_is_read_by_all_and_stays_while_the_next_round_is_written(ranks):
    for number in (1, 2, 3):
        for room in ranks:
            room.write_header(bytes([number]) * HEADER_BYTES)
            room.slots(WORDS, number)[room.rank, :2] = [number, room.rank]
        for room in ranks:
            room.arrive()
            room.slots(WORDS, number + 1)[room.rank] = 99
        for room in ranks:
            assert room.headers() == bytes([number]) * HEADER_BYTES * SIZE
            assert room.slots(WORDS, number)[:, :2].tolist() == [[number, r] for r in range(SIZE)]


def test_who_waits_for_this_rank_can_be_looked_up(ranks):
    ranks[1].write_header(b"1" * HEADER_BYTES)
    assert ranks[0].header_ahead(1) is None
    ranks[1].arrive()
    assert ranks[0].header_ahead(1) == b"1" * HEADER_BYTES
    ranks[0].arrive()
    assert ranks[0].header_ahead(1) is None


def test_exactly_one_of_many_at_once_is_the_last(ranks):
    def arrive_often(room):
        lasts = 0
        for _ in range(300):
            is_last = room.arrive()
            lasts += is_last
            while not is_last and not room.has_rung():
                os.sched_yield()
        return lasts

    with ThreadPoolExecutor(SIZE) as threads:
        assert sum(threads.map(arrive_often, ranks)) == 300


def test_nothing_of_a_room_is_left():
    before = descriptors()
    room = Room(open_room(SIZE), 0, SIZE)
    room.slots(WORDS, 1)[0] = 1
    room.close()
    assert descriptors() == before
