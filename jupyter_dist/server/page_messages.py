"""What pages are told, one message each; every one is a JSON object with its `kind`."""

import msgspec

from jupyter_dist.server.summaries import ClusterRow
from jupyter_dist.views.topology.changes import Told


class _Said(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base of them."""


class Clusters(_Said, frozen=True, kw_only=True, tag="clusters"):
    """The list."""

    clusters: tuple[ClusterRow, ...]


class TopologySeen(_Said, frozen=True, kw_only=True, tag="topology"):
    """How the followed cluster is, or what changed of it."""

    cluster: str
    told: Told


class CellSeen(_Said, frozen=True, kw_only=True, tag="cell"):
    """What the running, or the last, cell of the followed cluster has said."""

    cluster: str
    label: str
    """As `In[3]`."""
    is_running: bool
    html: str
    text: str


class Tail(_Said, frozen=True, kw_only=True, tag="tail"):
    """The last lines of the followed rank in that cell."""

    cluster: str
    rank: int
    text: str


class StartSeen(_Said, frozen=True, kw_only=True, tag="start"):
    """How far a start is that a page has asked for."""

    id: str
    """Of the request."""
    text: str
    ready_ranks: int = 0
    world_size: int = 0
    is_over: bool = False
    ok: bool = True
    cluster: str = ""
    """Its name, once it is known."""


class Gone(_Said, frozen=True, kw_only=True, tag="gone"):
    """The followed cluster is no more, or cannot be followed: why."""

    cluster: str
    text: str


class Refusal(_Said, frozen=True, kw_only=True, tag="refused"):
    """What the page has sent cannot be read: why, and what can."""

    text: str
