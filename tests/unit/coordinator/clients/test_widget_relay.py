"""Comms between ranks and the one notebook that shows them."""

import pytest

from jupyter_dist.coordinator.clients import widget_relay
from jupyter_dist.coordinator.clients.widget_relay import WidgetRelay
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.messages import (
    CommAnswered,
    CommArrived,
    CommHandled,
    CommReceived,
    CommsEnded,
    CommSent,
    CommsSeen,
    CommsSettled,
    FollowComms,
    Output,
    Refused,
    SendComm,
    SettleComms,
)

LINE = b"notebook"


@pytest.fixture
def relay(cluster):
    made = WidgetRelay(cluster.roster, cluster.sender)
    made.cluster = cluster
    return made


def say(relay, rank=1, content=b"{}", buffers=(), kind="open"):
    message = CommSent(rank, f"comm-{rank}", kind, content)
    relay.on_engine(relay.cluster.roster[rank], message, list(buffers))


def follow(relay, line=LINE):
    relay.on_request(line, FollowComms("f1"), 0.0)


def told(relay, kind, line=LINE):
    return relay.cluster.sender.told(kind, line)


def test_what_was_said_before_anyone_followed_comes_first(relay):
    say(relay, content=b"1")
    follow(relay)
    say(relay, content=b"2", kind="msg")
    assert [each.content for each in told(relay, CommArrived)] == [b"1", b"2"]
    assert {each.request_id for each in told(relay, CommArrived)} == {"f1"}


def test_what_nobody_asks_for_is_kept_within_bounds(relay, monkeypatch):
    monkeypatch.setattr(widget_relay, "KEPT_BYTES", 10)
    for number in range(5):
        say(relay, content=b"%d" % number, buffers=[b"123"])
    follow(relay)
    assert [each.content for each in told(relay, CommArrived)] == [b"3", b"4"]


def test_a_message_of_the_page_goes_to_the_process_that_has_the_comm(relay):
    say(relay)
    follow(relay)
    name = relay.cluster.roster[1].name
    relay.send(LINE, SendComm("", name, "comm-1", 1, "msg", b"{}"), [b"buffer"], 0.0)
    assert relay.cluster.sender.engines == [
        (1, CommReceived("comm-1", 1, "msg", b"{}"), [b"buffer"])
    ]
    said = (Output("stdout", "done\n"),)
    relay.on_engine(relay.cluster.roster[1], CommHandled(1, "comm-1", 1, said), [])
    assert told(relay, CommAnswered) == [CommAnswered("f1", name, 1, "comm-1", 1, said)]


def test_who_asks_is_told_that_all_has_gone_on(relay):
    follow(relay)
    relay.on_request(LINE, SettleComms("s1"), 0.0)
    assert told(relay, CommsSettled) == [CommsSettled("s1")]


def test_nobody_but_the_follower_speaks_to_widgets(relay):
    say(relay)
    follow(relay)
    name = relay.cluster.roster[1].name
    relay.send(b"stranger", SendComm("s1", name, "comm-1", 1, "msg", b"{}"), [], 0.0)
    assert relay.cluster.sender.engines == []
    assert told(relay, Refused, b"stranger")[0].code == ErrorCode.USAGE_ERROR


def test_the_end_of_a_process_is_told_once_with_its_reason(relay):
    say(relay, rank=1)
    say(relay, rank=2)
    follow(relay)
    relay.cluster.lose(1, "its process was killed")
    relay.tick()
    relay.tick()
    (ended,) = told(relay, CommsEnded)
    assert (ended.rank, ended.reason) == (1, "rank 1 is lost: its process was killed")


def test_the_one_before_is_let_go_and_hears_nothing_more(relay):
    follow(relay)
    follow(relay, b"other")
    say(relay)
    assert [each.engine for each in told(relay, CommsEnded)] == [""]
    assert told(relay, CommArrived) == []
    assert len(told(relay, CommArrived, b"other")) == 1


def test_a_follower_that_takes_nothing_in_is_let_go_before_memory_is_full(relay, monkeypatch):
    monkeypatch.setattr(widget_relay, "UNSEEN_BYTES", 10)
    follow(relay)
    say(relay, buffers=[b"12345678"])
    relay.on_request(LINE, CommsSeen(10), 0.0)
    say(relay, buffers=[b"12345678"], kind="msg")
    assert told(relay, CommsEnded) == []
    say(relay, buffers=[b"12345678"], kind="msg")
    assert len(told(relay, CommArrived)) == 2
    assert told(relay, CommsEnded)[0].engine == ""
    assert relay.follower == b""
