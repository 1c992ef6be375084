"""Meetings of threads that go on when the cell that began them has ended."""

from collections.abc import Iterator
from contextlib import contextmanager

from jupyter_dist.engine.channel.waiting import Answer
from jupyter_dist.engine.collectives.control_collectives import ControlCollectives, Post
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.protocol.background_ids import standing_id
from jupyter_dist.protocol.codec import Frame


class BackgroundCollectives:
    """The way to the coordinator for threads between cells."""

    def __init__(self, post: Post, held: HeldTime) -> None:
        self._post, self._held = post, held
        self._open: tuple[tuple[int, int, ControlCollectives], ...] = ()

    @contextmanager
    def open(self, generation: int, rank: int, world_size: int) -> Iterator[ControlCollectives]:
        """Let one thread meet those of all other ranks, as they were in this generation.

        Later generations make no difference as long as no rank is lost; then every meeting
        raises PeerFailed.
        """
        collectives = ControlCollectives(rank, world_size, self._post, self._held)
        collectives.enter_cell(standing_id(generation), range(world_size))
        self._open = (*self._open, (rank, world_size, collectives))
        try:
            yield collectives
        finally:
            self._open = tuple(each for each in self._open if each[-1] is not collectives)
            collectives.leave_cell()

    def enter_generation(self, rank: int, world_size: int) -> None:
        """End what was begun with another rank: nobody would know who that is."""
        for *seat, collectives in self._open:
            if seat != [rank, world_size]:
                collectives.abort(
                    -1, "the ranks have other numbers now, for some were lost meanwhile"
                )

    def on_answer(self, answer: Answer, frames: list[Frame]) -> None:
        """Take in what the coordinator says; called by the link thread."""
        for *_, collectives in self._open:
            collectives.on_answer(answer, frames)
