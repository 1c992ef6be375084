import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.server.page_requests import FollowAsked, StartAsked, ViewAsked, read_request


def test_what_is_asked_is_read():
    asked = read_request(b'{"id": "a", "kind": "heal", "ranks": [0, 2]}', ViewAsked)
    assert asked == ViewAsked(id="a", kind="heal", ranks=(0, 2))
    assert read_request('{"kind": "follow", "cluster": null}', FollowAsked) == FollowAsked()
    again = read_request('{"kind": "follow", "cluster": "x", "whole": true}', FollowAsked)
    assert again == FollowAsked(cluster="x", whole=True)
    start = read_request(b'{"id": "a", "hosts": "x:8", "name": ""}', StartAsked)
    assert (start.hosts, start.name, start.count) == ("x:8", "", None)


@pytest.mark.parametrize(
    ("body", "kind", "problem"),
    [
        (b"", StartAsked, "truncated"),
        (b"[1]", StartAsked, "Expected `object`"),
        (b'{"id": ""}', StartAsked, "length >= 1"),
        (b'{"id": "a", "count": true}', StartAsked, "Expected `int"),
        (b'{"id": "a", "count": 5000}', StartAsked, "<= 4096"),
        (b'{"id": 3, "kind": "stop"}', ViewAsked, "Expected `str`"),
        (b'{"id": "a", "kind": "heal", "ranks": "all"}', ViewAsked, "$.ranks"),
        (b'{"id": "a", "kind": "dance"}', ViewAsked, "there is no such kind"),
        (b'{"id": "a", "kind": "rank", "rank": -1}', ViewAsked, ">= 0"),
        (b'{"id": "a", "kind": "rank", "cluster": "x"}', ViewAsked, "unknown field `cluster`"),
        ('{"kind": "leave"}', FollowAsked, "Invalid value 'leave'"),
        (b"\xff" * 300, ViewAsked, "…"),
        (b'{"id": "\xff", "kind": "stop"}', ViewAsked, "UTF-8"),
        (b" " * 65_537, ViewAsked, "65,537 bytes is not accepted: it is too long"),
    ],
)
def test_what_cannot_be_read_is_named_with_what_is_accepted(body, kind, problem):
    with pytest.raises(UsageError, match="Accepted: ") as caught:
        read_request(body, kind)
    assert problem.lower() in str(caught.value).lower()  # as other msgspecs write it
