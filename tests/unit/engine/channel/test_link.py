import os
import threading
import time
from types import SimpleNamespace

import pytest

from jupyter_dist.engine.channel import link as link_module
from jupyter_dist.engine.channel.link import CROWD, MOST_CROWDED, Link, crowding_among
from jupyter_dist.protocol.messages import AbortCommunicator, CellOutput, Output, RunCell

CELL = RunCell("cell-1", 1, "x = 1", (0,), 1)
SAID = CellOutput(0, "cell-1", (Output("stdout", "hi\n"),), (3, 0))


class EndOfTest(BaseException):
    """Ends the link thread."""


@pytest.fixture
def work():
    """What the main thread does: it has said something once, and ends the thread when told."""
    said, is_over = [SAID], threading.Event()

    def look():
        if is_over.is_set():
            raise EndOfTest

    return SimpleNamespace(
        look=look, take_output=lambda: said.pop() if said else None, is_over=is_over
    )


@pytest.fixture
def link(home, channel, work, monkeypatch):
    ended = []
    monkeypatch.setattr(link_module, "end_with_own_error", ended.append)
    link = Link(channel, work, home.config)
    link.start()
    yield link
    work.is_over.set()
    link.join(10)
    assert [type(error) for error in ended] == [EndOfTest]


def test_a_cell_that_takes_longer_is_looked_after(home, channel, handler, link):
    released = threading.Event()
    handler.on_abort.side_effect = lambda *_: released.set()
    home.say(CELL)
    channel.next_work()
    home.say(AbortCommunicator(1, 3, "is lost"))  # the main thread is in the cell
    assert released.wait(10)
    assert home.receive() == [SAID]


def test_what_user_code_posts_is_sent_while_it_runs(home, channel, work, link):
    work.take_output = lambda: None
    home.say(CELL)
    channel.next_work()
    channel.post(SAID)
    assert home.receive() == [SAID]


def test_an_answer_to_what_user_code_has_posted_comes_at_once(home, channel, handler, link):
    link._takeover_s = 60.0
    answered = threading.Event()
    handler.on_abort.side_effect = lambda *_: answered.set()
    home.say(CELL)
    channel.next_work()
    channel.post(SAID)
    home.say(AbortCommunicator(1, 3, "is lost"))
    assert answered.wait(10)


def test_an_idle_rank_is_looked_after_too(channel, work, link):
    before = work.look
    work.look = lambda: channel.hand_over(print)
    assert channel.next_work() is print
    work.look = before


@pytest.mark.parametrize("is_here", [True, False])
def test_a_rank_ends_out_of_reach_unless_its_coordinator_is_seen_to_live(
    home, channel, work, monkeypatch, is_here
):
    left = []
    monkeypatch.setattr(link_module, "end_out_of_reach", left.append)
    monkeypatch.setattr(channel, "silence_s", lambda: 12.0)
    home.config.coordinator_pid = os.getpid() if is_here else 0
    Link(channel, work, home.config)._stream()
    assert left == ([] if is_here else [12.0])


@pytest.mark.parametrize(
    ("ranks", "cores", "crowding"),
    [
        (1, 1, 1.0),
        (CROWD, 1, 1.0),
        (CROWD * 16, 16, 1.0),
        (CROWD * 6, 2, 3.0),
        (CROWD * 10_000, 1, MOST_CROWDED),
    ],
)
def test_ranks_look_less_often_only_where_many_share_a_core(ranks, cores, crowding, monkeypatch):
    monkeypatch.setattr(link_module, "usable_cores", lambda: cores)
    assert crowding_among(ranks) == crowding


def test_a_crowded_rank_notices_in_time_that_its_relay_is_silent(home, channel, work, monkeypatch):
    monkeypatch.setattr(type(channel), "look_interval_s", 0.3)
    work.look = work.take_output = lambda: None
    home.config.info.local_world_size = 10_000 * link_module.usable_cores()
    link = Link(channel, work, home.config)
    link._look_after()
    assert link._next_look_s - time.monotonic() <= 0.3
