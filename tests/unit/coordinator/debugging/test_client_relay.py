"""Clients of debuggers, and the ranks that they debug."""

import pytest

from jupyter_dist.coordinator.debugging.client_relay import CLIENT_LEASE_S, DebuggerRelay
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.messages import (
    CloseDap,
    DapEnded,
    DapLeft,
    DapSaid,
    DapSpoke,
    EndDap,
    HearDap,
    OpenDap,
    Refused,
    StartDap,
    TellDap,
)

LINE = b"client-1-ab.3"


@pytest.fixture
def relay(cluster):
    made = DebuggerRelay(cluster.roster, cluster.sender)
    made.on_request(LINE, OpenDap("r1", 2), 1.0)
    return made


def sent(cluster, kind, rank=2):
    return cluster.sender.sent_to_ranks(kind).get(rank, [])


def told(cluster, kind, line=LINE):
    return cluster.sender.told(kind, line)


def test_messages_go_both_ways_until_the_rank_has_let_go(cluster, relay):
    ((session,),) = [[each.session for each in sent(cluster, StartDap)]]
    relay.on_request(LINE, TellDap("r1", b"ask"), 1.0)
    relay.on_engine(cluster.roster[2], DapSaid(2, session, b"answer"))
    relay.on_request(LINE, CloseDap("r1"), 1.0)
    relay.on_engine(cluster.roster[2], DapLeft(2, session))
    assert [each.content for each in sent(cluster, HearDap)] == [b"ask"]
    assert [each.content for each in told(cluster, DapSpoke)] == [b"answer"]
    assert sent(cluster, EndDap) == [EndDap(session)]
    assert told(cluster, DapEnded) == [DapEnded("r1", 2)]
    relay.on_request(LINE, OpenDap("r2", 2), 1.0)
    assert len(sent(cluster, StartDap)) == 2


@pytest.mark.parametrize("rank", [2, 7, -1])
def test_a_second_client_and_a_rank_that_is_not_there_are_refused(cluster, relay, rank):
    relay.on_request(b"other.1", OpenDap("r1", rank), 1.0)
    (refused,) = told(cluster, Refused, b"other.1")
    assert refused.code == ErrorCode.USAGE_ERROR
    relay.on_request(b"other.1", TellDap("r1", b"ask"), 1.0)
    relay.on_request(b"other.1", CloseDap("r1"), 1.0)
    assert (sent(cluster, HearDap), sent(cluster, EndDap)) == ([], [])


def test_what_an_earlier_session_says_is_not_told(cluster, relay):
    relay.on_engine(cluster.roster[2], DapSaid(2, "earlier", b"x"))
    relay.on_engine(cluster.roster[2], DapLeft(2, "earlier"))
    assert (told(cluster, DapSpoke), told(cluster, DapEnded)) == ([], [])


def test_a_client_hears_that_its_rank_is_lost(cluster, relay):
    cluster.lose(2)
    relay.tick(1.0)
    (ended,) = told(cluster, DapEnded)
    assert ended.reason.startswith("rank 2 is lost")
    relay.on_request(LINE, TellDap("r1", b"ask"), 1.0)
    assert sent(cluster, HearDap) == []


def test_ranks_of_a_client_that_is_silent_go_on(cluster, relay):
    relay.hear(b"client-1-ab.1", 5.0)  # another line of the same client
    relay.tick(5.0 + CLIENT_LEASE_S)
    assert sent(cluster, EndDap) == []
    relay.tick(5.1 + CLIENT_LEASE_S)
    assert len(sent(cluster, EndDap)) == 1
    assert not relay.sessions


def test_all_go_on_when_the_cluster_ends(cluster, relay):
    relay.close_all()
    assert len(sent(cluster, EndDap)) == 1
