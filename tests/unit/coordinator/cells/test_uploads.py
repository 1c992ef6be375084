import os

import pytest
from fakes.outbox import RecordingSender

from jupyter_dist.coordinator.cells.uploads import PATIENCE_S, Uploads
from jupyter_dist.errors import ErrorCode
from jupyter_dist.protocol.messages import PieceTaken, PushObjects, Refused, SendPiece

PUSH = PushObjects("r1", ("x", "y"), (1, 2), sizes=(3, 0, 4))


@pytest.fixture
def sender():
    return RecordingSender()


@pytest.fixture
def uploads(sender):
    uploads = Uploads(sender)
    uploads.begin(b"me", PUSH, 0.0)
    return uploads


def send(uploads, number, data, client=b"me", request_id="r1", now_s=1.0):
    return uploads.take(client, SendPiece(request_id, number), data, now_s)


@pytest.mark.parametrize("has_memory", [True, False])
def test_each_piece_is_confirmed_and_the_last_one_gives_the_whole(sender, monkeypatch, has_memory):
    if not has_memory:
        monkeypatch.delattr(os, "memfd_create")
    uploads = Uploads(sender)
    uploads.begin(b"me", PUSH, 0.0)
    assert send(uploads, 1, b"abc") is None
    assert send(uploads, 2, b"12") is None
    request, payload = send(uploads, 3, b"34")
    assert request is PUSH
    assert list(payload.frames()) == [b"abc", b"", b"1234"]
    assert (payload.file is not None) == has_memory
    assert sender.told(PieceTaken, b"me") == [PieceTaken("r1", k) for k in (1, 2, 3)]


@pytest.mark.parametrize(("number", "data"), [(2, b"abc"), (1, b"abcd"), (1, b"")])
def test_a_piece_that_cannot_be_meant_ends_the_push(uploads, sender, number, data):
    assert send(uploads, number, data) is None
    (refusal,) = sender.told(Refused)
    assert refusal.code == ErrorCode.USAGE_ERROR
    assert "piece" in refusal.reason
    send(uploads, 1, b"abc")
    assert len(sender.told(Refused)) == 2


def test_lines_do_not_disturb_each_other(uploads, sender):
    uploads.begin(b"you", PUSH, 0.0)
    send(uploads, 1, b"abc")
    send(uploads, 1, b"abc", client=b"you")
    assert send(uploads, 2, b"1234", client=b"you") is not None
    assert sender.told(Refused) == []


def test_a_push_that_was_taken_back_takes_no_more_pieces(uploads, sender):
    uploads.forget(b"me", "r0")
    send(uploads, 1, b"abc")
    uploads.forget(b"me", "r1")
    assert send(uploads, 2, b"1234") is None
    assert sender.told(Refused)


def test_who_has_gone_away_in_the_middle_is_forgotten(uploads, sender):
    send(uploads, 1, b"abc", now_s=10.0)
    uploads.forget_silent(PATIENCE_S + 9.0)
    assert sender.told(Refused) == []
    uploads.forget_silent(PATIENCE_S + 11.0)
    assert send(uploads, 2, b"1234", now_s=PATIENCE_S + 11.0) is None
    assert sender.told(Refused)
