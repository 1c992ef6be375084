"""Heartbeats of ranks that have a relay: real sockets, moved on by hand."""

import struct
from time import monotonic

import pytest

from jupyter_dist.control.frames import receive_frames, send_frames
from jupyter_dist.control.relay import engine_dealer
from jupyter_dist.control.relay.engine_dealer import alive_interval_s
from jupyter_dist.protocol.messages import Ready

NAMES = (b"0", b"1", b"2.4")


def ask(host, *names):
    """Ask for beats; return since when."""
    since_s = monotonic()
    host.beats.ask(names)
    return since_s


def answered(host, since_s, *names):
    """Return which of them have answered what was asked since then."""
    host.beats.receive()
    return {name for name in names if host.beats.answered_s(name) >= since_s}


def open_ranks(host):
    """Open all ranks; return once each has answered, and no other question is open."""
    ranks = [host.rank(name.decode()) for name in NAMES]
    host.move_until(lambda: ask(host, *NAMES) and len(answered(host, 1.0, *NAMES)) == len(NAMES))
    since_s = ask(host, *NAMES)
    host.move_until(lambda: answered(host, since_s, *NAMES) == set(NAMES))
    return ranks


def test_all_ranks_answer_one_question_in_one_answer(host):
    open_ranks(host)
    ask(host, *NAMES)
    host.move_until(lambda: host.beats.pollable.poll(0))
    (name, stamp), _ = receive_frames(host.beats.pollable, small=3)
    assert name == host.name.encode()
    assert len(stamp) == 8, "and nothing else: it says that all have answered"


def test_a_relay_that_is_another_process_by_now_is_told_again_whom_to_ask(host):
    ranks = open_ranks(host)
    host.end_relay()
    host.relay = host.start_relay(host.name)
    since_s = monotonic()

    def all_answer():
        for rank in ranks:
            rank.silence_s()
        ask(host, *NAMES)
        host.move()
        return answered(host, since_s, *NAMES) == set(NAMES)

    host.move_until(all_answer)


def test_a_rank_that_does_not_answer_holds_up_no_other(host):
    open_ranks(host)
    host.router.give_to_relay(host.name, ["3"])  # that was never born
    since_s = ask(host, *NAMES, b"3")
    host.move_until(lambda: answered(host, since_s, *NAMES) == set(NAMES))
    assert not host.beats.answered_s(b"3")


def test_a_relay_speaks_only_for_ranks_that_it_was_given(host):
    open_ranks(host)
    host.router.give_to_relay("relay-of-another-host", ["3"])
    host.beats.ask([b"3"])
    send_frames(host.relay._beats.uplink, (struct.pack("<d", monotonic()), b"3 4 0"))
    host.move_until(lambda: answered(host, 0, b"0"))
    since_s = ask(host, b"0")
    host.move_until(lambda: answered(host, since_s, b"0"))
    assert not host.beats.answered_s(b"3")
    assert not host.beats.answered_s(b"4")


def test_a_rank_that_has_left_its_relay_answers_by_itself(host):
    ranks = open_ranks(host)
    host.end_relay()

    def all_answer():
        for number, rank in enumerate(ranks):
            rank.silence_s()
            rank.send(Ready(number, 1))
        since_s = ask(host, *NAMES)
        host.move()
        return answered(host, since_s - 1, *NAMES) == set(NAMES) and not host.router.relays

    host.move_until(all_answer)


def test_a_rank_that_cannot_dial_is_connected_with_the_next_relay(host):
    open_ranks(host)
    host.end_relay()
    host.relay = host.start_relay(host.name)
    since_s = monotonic()

    def all_answer():
        host.beats.ask(NAMES)  # no rank looks at its connections
        return answered(host, since_s, *NAMES) == set(NAMES)

    host.move_until(all_answer)


def test_a_rank_without_a_thread_for_its_own_beats_tries_again(host, monkeypatch):
    rank = open_ranks(host)[0]
    begun, answer = [], rank._on_left

    def refuse():
        begun.append(1)
        if len(begun) < 3:
            raise RuntimeError("can't start new thread")
        answer()

    monkeypatch.setattr(rank, "_on_left", refuse)
    monkeypatch.setattr(rank, "_heard_s", rank._heard_s - rank.silent_s - 1)
    for _ in range(5):
        rank.silence_s()
    assert len(begun) == 3


@pytest.mark.parametrize("lost_after_s", [1.0, 4.0, 10.0, 60.0])
def test_a_rank_leaves_a_silent_relay_well_before_it_counts_as_lost(lost_after_s):
    interval_s = alive_interval_s(lost_after_s)
    missed = engine_dealer._MISSED * interval_s
    until_it_looks, until_it_is_asked = interval_s, lost_after_s / 3
    assert missed + until_it_looks + until_it_is_asked < lost_after_s
