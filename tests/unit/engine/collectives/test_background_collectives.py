"""A thread meets those of other ranks between cells."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fakes.link import FakeLink

from jupyter_dist.engine.collectives.background_collectives import BackgroundCollectives
from jupyter_dist.errors import PeerFailed
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.protocol.messages import CollectiveCompleted, JoinCollective, WithdrawCollective

RANKS = (0, 1)


class Desk:
    """Rank 1 of two, with a thread that is in a meeting."""

    def __init__(self):
        self.link = FakeLink()
        self.standing = BackgroundCollectives(self.link.post, HeldTime())
        has_posted = threading.Event()
        self.link.respond = lambda *_: has_posted.set()
        self._thread = ThreadPoolExecutor(1)
        self.result = self._thread.submit(self._meet)
        assert has_posted.wait(10)

    def _meet(self):
        with self.standing.open(5, 1, 2) as collectives:
            return collectives.meet(
                "save", "all_gather", RANKS, [b"mine"], claim="save", timeout_s=60.0
            )

    def close(self):
        self.standing.enter_generation(0, 1)  # ends what still waits
        self._thread.shutdown()
        self.link.close()


@pytest.fixture
def desk():
    desk = Desk()
    yield desk
    desk.close()


def test_it_names_the_generation_in_which_it_began_also_in_a_later_one_of_the_same_ranks(desk):
    desk.standing.enter_generation(1, 2)
    (attend,) = desk.link.said(JoinCollective)
    assert (attend.cell_id, attend.rank, attend.ranks) == ("generation 5", 1, None)
    desk.standing.on_answer(
        CollectiveCompleted(attend.cell_id, attend.topic, (0,), (1,)), [b"theirs"]
    )
    assert desk.result.result(10) == {0: [b"theirs"], 1: [b"mine"]}


@pytest.mark.parametrize("seat", [(0, 2), (1, 3)])
def test_who_gets_another_rank_waits_no_longer(desk, seat):
    desk.standing.enter_generation(*seat)
    with pytest.raises(PeerFailed, match="numbers"):
        desk.result.result(10)
    assert desk.link.said(WithdrawCollective) == []


def test_answers_for_cells_wake_nobody(desk):
    (attend,) = desk.link.said(JoinCollective)
    desk.standing.on_answer(CollectiveCompleted("cell-1", attend.topic, (0,), (1,)), [b"theirs"])
    assert not desk.result.done()
    desk.standing.enter_generation(0, 1)
    assert desk.result.exception(10) is not None
