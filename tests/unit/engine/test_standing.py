"""A thread meets those of other ranks between cells."""

import threading
from concurrent.futures import Future

import pytest
from fakes.link import FakeLink

from jupyter_dist.engine.standing import StandingMeetings
from jupyter_dist.errors import PeerFailed
from jupyter_dist.protocol.messages import Attend, LeaveMeeting, MeetingHeld

RANKS = (0, 1)


class Desk:
    """Rank 1 of two, with a thread that is in a meeting."""

    def __init__(self):
        self.link = FakeLink()
        self.has_posted = threading.Event()
        self.standing = StandingMeetings(self._post)
        self.result = Future()
        threading.Thread(target=self._meet, daemon=True).start()
        assert self.has_posted.wait(10)

    def _post(self, message, frames):
        self.link.post(message, frames)
        self.has_posted.set()

    def _meet(self):
        try:
            with self.standing.open(5, 1, 2) as meetings:
                found = meetings.meet(
                    "save", "all_gather", RANKS, [b"mine"], claim="save", timeout_s=60.0
                )
            self.result.set_result(found)
        except BaseException as error:  # noqa: BLE001  (the future raises it again)
            self.result.set_exception(error)

    @property
    def posted(self):
        return [message for message, *_ in self.link.posted]


@pytest.fixture
def desk():
    desk = Desk()
    yield desk
    desk.link.close()


def test_it_names_the_generation_in_which_it_began(desk):
    (attend,) = desk.posted
    assert isinstance(attend, Attend)
    assert (attend.cell_id, attend.rank, attend.ranks) == ("generation 5", 1, RANKS)
    desk.standing.on_answer(MeetingHeld(attend.cell_id, attend.topic, (0,), (1,)), [b"theirs"])
    assert desk.result.result(10) == {0: [b"theirs"], 1: [b"mine"]}


def test_a_later_generation_with_the_same_ranks_changes_nothing(desk):
    desk.standing.enter_generation(1, 2)
    (attend,) = desk.posted
    desk.standing.on_answer(MeetingHeld(attend.cell_id, attend.topic, (0,), (1,)), [b"theirs"])
    assert desk.result.result(10)[0] == [b"theirs"]


@pytest.mark.parametrize("seat", [(0, 2), (1, 3)])
def test_who_gets_another_rank_waits_no_longer(desk, seat):
    desk.standing.enter_generation(*seat)
    with pytest.raises(PeerFailed, match="other numbers now"):
        desk.result.result(10)
    assert not any(isinstance(message, LeaveMeeting) for message in desk.posted)


def test_answers_for_cells_wake_nobody(desk):
    (attend,) = desk.posted
    desk.standing.on_answer(MeetingHeld("cell-1", attend.topic, (0,), (1,)), [b"theirs"])
    assert not desk.result.done()
    desk.standing.enter_generation(0, 1)
    assert desk.result.exception(10) is not None
