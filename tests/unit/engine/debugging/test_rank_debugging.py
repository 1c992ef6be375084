import signal

import pytest

from jupyter_dist.engine.debugging.rank_debugging import RankDebugging
from jupyter_dist.protocol.messages import HoldDeadlines, StopNow


def make():
    return RankDebugging(lambda: 2, lambda _message: None, None, None)


def test_deadlines_stand_still_as_long_as_the_coordinator_says():
    debugging = make()
    debugging.on_message(HoldDeadlines(True))
    assert debugging.held.is_held
    debugging.on_message(HoldDeadlines(False))
    assert not debugging.held.is_held


@pytest.fixture
def signals(monkeypatch):
    sent = []
    monkeypatch.setattr(signal, "pthread_kill", lambda _thread, number: sent.append(number))
    return sent


def test_the_main_thread_is_signalled_until_it_has_seen_that_it_is_to_stop(signals, monkeypatch):
    debugging, stopped = make(), []
    monkeypatch.setattr(signal, "getsignal", lambda _number: debugging._on_stop_signal)
    monkeypatch.setattr(debugging.breakpoints, "stop", stopped.append)
    debugging.look()
    assert not signals
    debugging.on_message(StopNow())
    debugging.look()
    assert signals == [signal.SIGURG] * 2
    debugging._on_stop_signal(signal.SIGURG, None)
    debugging._on_stop_signal(signal.SIGURG, None)
    debugging.look()
    assert len(signals) == 2
    assert len(stopped) == 1


def test_a_program_with_a_handler_of_its_own_is_not_signalled_and_says_so(
    signals, monkeypatch, capfd
):
    debugging = make()
    monkeypatch.setattr(signal, "getsignal", lambda _number: signal.SIG_IGN)
    debugging.on_message(StopNow())
    debugging.look()
    assert not signals
    said = capfd.readouterr().err
    assert said.count("rank 2") == said.count("SIGURG") == 1
