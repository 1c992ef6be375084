"""Why a communicator broke, and the error that each rank raises for it."""

from typing import Literal, assert_never

import msgspec

from jupyter_dist.errors import (
    CollectiveMismatch,
    CollectiveTimeout,
    CommunicatorError,
    PeerFailed,
)
from jupyter_dist.model.hosts.rank import name_rank, name_ranks

BreakageKind = Literal["failed", "left", "mismatch", "timeout", "reset"]


class Breakage(msgspec.Struct, frozen=True):
    """Why a communicator broke, from nobody's point of view in particular.

    Ranks are those of the cluster, whatever their numbers in a group that was split off.
    """

    kind: BreakageKind
    rank: int
    """Who failed, left, gave up waiting, or found the mismatch; -1 when it is not one rank."""
    text: str
    """What it did, following the words "rank 2"; for a mismatch, its call; for a reset, all."""
    peer: int = -1
    peer_text: str = ""
    ranks: tuple[int, ...] = ()
    """All that made the call of a mismatch, the fewest, where the calls of all were seen;"""
    peers: tuple[int, ...] = ()
    """and all that made the call of its peer, the most."""

    def error(self, viewer: int) -> CommunicatorError:
        """Return the exception that the rank `viewer` of the cluster raises for this."""
        who = name_rank(self.rank)
        match self.kind:
            case "failed":
                return PeerFailed(self.rank, self.text, who)
            case "mismatch" if self.ranks:
                sides = name_ranks(self.ranks), name_ranks(self.peers)
                return CollectiveMismatch(self.rank, self.text, self.peer, self.peer_text, sides)
            case "mismatch" if viewer == self.peer:
                both = name_rank(self.peer), who
                return CollectiveMismatch(self.peer, self.peer_text, self.rank, self.text, both)
            case "mismatch":
                both = who, name_rank(self.peer)
                return CollectiveMismatch(self.rank, self.text, self.peer, self.peer_text, both)
            case "timeout" if viewer == self.rank:
                return CollectiveTimeout(f"{who} {self.text}")
            case "left" if viewer == self.rank:
                return CommunicatorError(
                    f"this communicator is broken: {who} {self.text}, so the ranks are "
                    "out of step. A new one is formed before the next cell."
                )
            case "timeout" | "left":
                return PeerFailed(self.rank, self.text, who)
            case "reset":
                return CommunicatorError(
                    f"{self.text}. Nothing else is lost: the ranks keep what they have, and a new "
                    "communicator is formed before the next cell."
                )
            case _:
                assert_never(self.kind)


class Broken(Exception):
    """A transport cannot go on; the communicator raises what the breakage says."""

    def __init__(self, breakage: Breakage) -> None:
        self.breakage = breakage
        super().__init__(breakage)
