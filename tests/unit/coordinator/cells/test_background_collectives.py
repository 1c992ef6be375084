"""Meetings of threads: they outlive cells and generations, but no rank."""

import pytest
from fakes.outbox import RecordingSender

from jupyter_dist.coordinator.cells.background_collectives import IDLE_SETS, BackgroundCollectives
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.protocol.background_ids import generation_of, standing_id
from jupyter_dist.protocol.messages import (
    CollectiveCompleted,
    CollectiveFailed,
    JoinCollective,
    WithdrawCollective,
)


class FakeRoster:
    world_size = 2


class FakeRendezvous:
    lost_rank = -1
    whole_since = 1
    generation = 3

    def is_whole_since(self, generation):
        return self.whole_since <= generation <= self.generation


class Hall:
    def __init__(self):
        self.rendezvous = FakeRendezvous()
        self.sender = RecordingSender()
        self.standing = BackgroundCollectives(
            FakeRoster(), self.rendezvous, self.sender, HeldTime()
        )

    def attend(self, rank, generation=3, now_s=0.0, topic="save 1 of 0,1"):
        message = JoinCollective(
            rank=rank,
            cell_id=standing_id(generation),
            topic=topic,
            ranks=(0, 1),
            kind="all_gather",
            claim="save",
            frame_counts=(1,),
            timeout_s=5.0,
        )
        self.standing.on_message(message, [b"%d" % rank], now_s)

    def told(self):
        told, self.sender.engines = self.sender.engines, []
        return told

    def told_kinds(self):
        return [type(message) for _, message, _ in self.told()]


@pytest.fixture
def hall():
    return Hall()


def test_ids_are_read_back():
    assert generation_of(standing_id(12)) == 12
    assert [generation_of(text) for text in ("cell-1", "generation ", "generation x")] == [None] * 3


def test_threads_meet_without_a_cell(hall):
    hall.attend(0)
    assert hall.told() == []
    hall.attend(1)
    assert [(rank, type(message), frames) for rank, message, frames in hall.told()] == [
        (0, CollectiveCompleted, [b"1"]),
        (1, CollectiveCompleted, [b"0"]),
    ]


def test_a_new_generation_of_the_same_ranks_ends_no_meeting(hall):
    hall.attend(0)
    hall.rendezvous.generation = 7
    hall.standing.tick(1.0)
    hall.attend(1)
    assert hall.told_kinds() == [CollectiveCompleted] * 2


def test_a_lost_rank_fails_them_at_once_and_later_ones_too(hall):
    hall.attend(0)
    hall.rendezvous.whole_since, hall.rendezvous.lost_rank = 4, 1
    hall.standing.tick(0.1)
    ((rank, failed, _),) = hall.told()
    assert (rank, failed.ranks, failed.text) == (0, (1,), "was lost")
    hall.attend(0, topic="save 2 of 0,1")
    ((rank, failed, _),) = hall.told()
    assert isinstance(failed, CollectiveFailed)
    assert (rank, failed.ranks, failed.cell_id) == (0, (1,), standing_id(3))


def test_ranks_of_a_later_generation_meet_again(hall):
    hall.rendezvous.whole_since = hall.rendezvous.generation = 4
    for rank in (0, 1):
        hall.attend(rank, generation=4)
    assert hall.told_kinds() == [CollectiveCompleted] * 2


def test_who_is_late_is_named(hall):
    hall.attend(0)
    hall.standing.tick(4.9)
    assert hall.told() == []
    hall.standing.tick(5.0)
    ((rank, failed, _),) = hall.told()
    assert (rank, failed.kind, failed.ranks) == (0, "timeout", (1,))


def test_who_leaves_is_named(hall):
    hall.attend(0)
    hall.attend(0, topic="save 2 of 0,1")
    leave = WithdrawCollective(0, standing_id(3), "save 1 of 0,1", (0, 1), "left it")
    hall.standing.on_message(leave, [], 0.0)
    hall.attend(1)
    ((rank, failed, _),) = hall.told()
    assert (rank, failed.kind, failed.ranks, failed.text) == (1, "left", (0,), "left it")


def test_messages_of_cells_are_passed_over(hall):
    message = JoinCollective(0, "cell-7", "t", (0, 1), "barrier", "c")
    hall.standing.on_message(message, [], 0.0)
    assert hall.told() == []


def test_meetings_of_old_generations_are_forgotten(hall):
    hall.rendezvous.generation = 99
    for generation in range(1, 3 * IDLE_SETS):
        for rank in (0, 1):
            hall.attend(rank, generation=generation)
    assert len(hall.standing._sets) <= IDLE_SETS + 1
