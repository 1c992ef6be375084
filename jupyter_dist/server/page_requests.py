"""What pages may ask, and what is said of requests that cannot be read."""

from typing import Annotated, TypeVar

import msgspec

from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec.cluster_spec import MOST_SLOTS
from jupyter_dist.text.lists import cut
from jupyter_dist.views.topology.view_commands import KINDS

MOST_BYTES = 64 << 10
"""Requests are small; whatever is larger is none."""
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
Rank = Annotated[int, msgspec.Meta(ge=0)]


class _Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of them."""


class StartAsked(_Asked, frozen=True, kw_only=True):
    """Start a cluster: of hosts, of so many ranks on this machine, or of a saved specification."""

    id: Id
    hosts: str | None = None
    spec: str | None = None
    name: str | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=MOST_SLOTS)] | None = None


class ViewAsked(_Asked, frozen=True, kw_only=True):
    """What a button of a view asks of a cluster."""

    id: Id
    kind: str
    ranks: tuple[Rank, ...] | None = None
    rank: Rank | None = None


class FollowAsked(_Asked, frozen=True, kw_only=True, tag_field="kind", tag="follow"):
    """Show me this cluster (None: none), and the last lines of this rank (None: of none).

    `whole`: I have missed something, tell me all of it again.
    """

    cluster: str | None = None
    rank: Rank | None = None
    whole: bool = False


_ACCEPTED = {
    StartAsked: 'an id, and one of hosts ("a:8,b:8"), spec (a path of GET specs) and count '
    f"(1-{MOST_SLOTS} ranks on this machine); a name if you like",
    ViewAsked: f"an id of 1 to 100 letters, a kind ({', '.join(KINDS)}), and ranks (a list of "
    "numbers) or rank (a number) where the kind takes them",
    FollowAsked: '{"kind": "follow", "cluster": NAME or null, "rank": NUMBER or null}; '
    '"whole": true to be told the whole state again',
}
Asked = TypeVar("Asked", StartAsked, ViewAsked, FollowAsked)


def read_request(body: bytes | str, kind: type[Asked]) -> Asked:
    """Read what a page sent; raises UsageError with what was given and what is accepted."""
    if len(body) > MOST_BYTES:
        raise _refusal(kind, f"of {len(body):,} bytes", "it is too long")
    try:
        asked = msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        text = body if isinstance(body, str) else body.decode("utf-8", "replace")
        raise _refusal(kind, cut(text, 200), str(problem)) from None
    if isinstance(asked, ViewAsked) and asked.kind not in KINDS:
        raise _refusal(kind, f"{asked.kind!r}", "there is no such kind")
    return asked


def _refusal(kind: type[Asked], given: str, problem: str) -> UsageError:
    return UsageError(f"request {given} is not accepted: {problem}. Accepted: {_ACCEPTED[kind]}.")
