import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import get_args
from unittest.mock import Mock

import pytest

from jupyter_dist.control.relay.doors import open_doors
from jupyter_dist.engine.channel.channel import Channel
from jupyter_dist.protocol.births import relay_path
from jupyter_dist.protocol.messages import (
    AbortCommunicator,
    ControllerLeft,
    Leave,
    ObjectsStored,
    RunCell,
    ToEngine,
    WatchNotices,
)
from tests.patience import wait_until

CELL = RunCell("cell-1", 1, "x = 1", (0,), 1)


@pytest.fixture
def closed(handler):
    """A channel whose socket is not open."""
    channel = Channel(SimpleNamespace(info=SimpleNamespace(rank=0)), handler)
    wakers = (channel.link_waker, channel._main_waker)
    yield channel
    for waker in wakers:
        waker.close()


def test_every_message_of_the_coordinator_is_handled(closed):
    assert set(closed.handlers) == set(get_args(ToEngine))


def test_an_idle_rank_whose_relay_ends_dials_the_coordinator(home, open_channel, tmp_path):
    home.config.relay, home.config.run_dir = "relay-secret", str(tmp_path)
    with closing(open_doors(relay_path(tmp_path))) as doors:
        channel = open_channel()
        channel.answer(ObjectsStored(0, "hello", ""))
        doors.messages.settimeout(10)
        doors.messages.accept()[0].close()
    with ThreadPoolExecutor(1) as main:
        work = main.submit(channel.next_work)
        assert home.receive() == [ObjectsStored(0, "hello", "")]
        home.say(CELL)
        assert work.result(10).message == CELL


def test_a_cell_is_announced_before_the_main_thread_gets_it(channel, home, handler):
    handler.on_beginning.side_effect = lambda: order.append("announced")
    order = []
    home.say(CELL)
    assert channel.next_work().message == CELL
    assert order == ["announced"]
    assert channel.is_cell_waiting


def test_what_is_no_work_is_not_announced(channel, home, handler):
    home.say(Leave())
    assert channel.next_work().message == Leave()
    handler.on_beginning.assert_not_called()
    assert not channel.is_cell_waiting


def test_what_comes_with_a_cell_is_handled_behind_it(channel, home, handler):
    abort = AbortCommunicator(1, 3, "is lost")
    home.say(abort, CELL, abort)
    assert channel.next_work().message == CELL

    def count_handled():
        with channel.charge:
            channel.serve()
        return len(handler.method_calls)

    wait_until(lambda: count_handled() == 3, 5, "the last message has come as well")
    calls = [name for name, _, _ in handler.method_calls]
    assert calls == ["on_abort", "on_beginning", "on_abort"]


def test_the_main_thread_gets_one_message_after_the_other(channel, home, handler):
    home.say(CELL, AbortCommunicator(1, 3, "is lost"), CELL, Leave())
    works = [channel.next_work().message for _ in range(3)]
    assert works == [CELL, CELL, Leave()]
    calls = [name for name, _, _ in handler.method_calls]
    assert calls == ["on_beginning", "on_abort", "on_beginning"]


def test_what_another_thread_has_read_comes_to_the_main_thread(channel, home):
    """The socket says no more that there is something."""
    home.say(CELL)

    def look():
        while not channel.is_cell_waiting:
            with channel.charge:
                channel.serve()

    link = threading.Thread(target=look)
    link.start()
    link.join()
    assert channel.next_work().message == CELL


def test_calls_of_other_threads_come_to_the_main_thread(channel):
    done = Mock()
    other = threading.Timer(0.05, channel.hand_over, (done,))
    other.start()
    assert channel.next_work() is done
    other.join()


def test_what_was_posted_goes_before_an_answer(channel, home):
    first, second = WatchNotices(0, True), ControllerLeft(0, reason="gone")
    channel.post(first)
    channel.post(second)
    channel.answer(ObjectsStored(0, "r", ""))
    assert home.receive(3) == [first, second, ObjectsStored(0, "r", "")]
    assert not channel.has_posted


def test_what_a_message_makes_a_rank_say_is_sent_at_once(channel, home, handler):
    answer = ObjectsStored(0, "r", "")
    handler.on_abort.side_effect = lambda *_: channel.post(answer)
    home.say(AbortCommunicator(1, 3, "is lost"), CELL)
    assert channel.next_work().message == CELL
    assert home.receive() == [answer]


@pytest.mark.parametrize("is_asleep", [True, False])
def test_the_link_thread_is_woken_from_a_long_sleep_only(closed, is_asleep):
    closed._dealer = Mock(receive=Mock(return_value=()))
    closed.link_waker = Mock()
    closed.is_link_asleep = is_asleep
    closed.hand_over(print)
    closed.next_work()
    assert closed.link_waker.wake.called == is_asleep
