"""Grants: a person lets AI agents act on one cluster for a time."""

import math
import time
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from jupyter_dist.cluster.connection.connection import Connection
from jupyter_dist.errors import UsageError
from jupyter_dist.protocol.messages import GiveGrant, Grant, GrantGiven
from jupyter_dist.text.plurals import count_of

if TYPE_CHECKING:
    from jupyter_dist.cluster.observed import ObservedCluster

_ANSWER_TIMEOUT_S = 10.0


class GivenGrant(msgspec.Struct, frozen=True):
    """A grant that has just been given; `str()` is what to tell the agent."""

    cluster: str
    grant: Grant
    token: str
    """What an agent passes on with each call; it is shown only now."""

    def __str__(self) -> str:
        return (
            f"AI agents that have this grant may {write_acts(self.grant.may)} on cluster "
            f"{self.cluster} until {_clock(self.grant)}. Tell it to yours:\n"
            f"  grant {self.token}\n"
            f"%dist_allow lists grants; %dist_allow --revoke {self.grant.number} ends this one"
        )


def allow_agents(
    line: Connection, cluster: str, may: str | Iterable[str], for_s: float
) -> GivenGrant:
    """Give a grant; see `Cluster.allow_agents`."""
    acts = may.replace(" ", "").split(",") if isinstance(may, str) else [*may]
    if not math.isfinite(for_s):
        raise UsageError(f"{for_s} s is not accepted: a grant ends after 7 days at most.")
    request = GiveGrant(line.new_request_id(), tuple(filter(None, acts)), for_s)
    given, _ = line.ask(request, GrantGiven, timeout_s=_ANSWER_TIMEOUT_S)
    return GivenGrant(cluster, given.grant, given.token)


class Obeyed(NamedTuple):
    """What came of an order."""

    answer: object
    """For programs."""
    text: str


def obey_options(cluster: "ObservedCluster", options: Namespace) -> Obeyed:
    """Give, revoke or list grants, as options of `%dist_allow` say."""
    if options.revoke is not None:
        gone = cluster.revoke_grants(options.revoke)
        said = f"{count_of(len(gone), 'grant')} revoked; cells that run go on"
        return Obeyed({"revoked": gone}, said)
    if options.whom is None:
        held = cluster.grants()
        return Obeyed({"grants": held}, write_grants(held))
    given = cluster.allow_agents(options.may, for_s=options.for_s)
    return Obeyed(given, str(given))


def write_grants(held: Sequence[Grant]) -> str:
    """Write a line for each grant: what it is for, until when, and what was done by it."""
    if not held:
        return "AI agents may only look: no grant holds. %dist_allow agent gives one."
    return "\n".join(_write(grant) for grant in held)


def write_acts(acts: Sequence[str]) -> str:
    """Write `run, interrupt and heal`."""
    return " and ".join(filter(None, (", ".join(acts[:-1]), acts[-1])))


def _write(grant: Grant) -> str:
    used = f"used {count_of(grant.acts, 'time')}, last: {grant.last}" if grant.acts else "not used"
    return f"grant {grant.number}: {write_acts(grant.may)} until {_clock(grant)}; {used}"


def _clock(grant: Grant) -> str:
    at = time.localtime(grant.until_s)
    is_today = time.localtime()[:3] == at[:3]
    return time.strftime("%H:%M" if is_today else "%a %d %b %H:%M", at)
