"""How long the end of a cluster may take: who asks for it waits as long as the coordinator may."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_dist.model.spec.cluster_spec import HostSpec

CONTROLLER_END_S = 3.0
"""Until the controller of ipyparallel has ended."""
LEAVE_GRACE_S = 1.5
"""Of ranks that were told to leave; then their agents end them."""
AGENTS_WORD_S = LEAVE_GRACE_S + 8.0
"""Until every agent has said that all its ranks have ended; one out of reach never says it."""
AGENT_END_S = 6.0
"""Until the processes of agents that were started from here have ended; then they are killed."""
JOB_END_S = 9.0
"""A job has a moment to end on its own, and is cancelled then; schedulers take their time."""
_CLOSING_S = 1.0
"""Until sockets and streams are closed."""


def longest_end_s(hosts: "Iterable[HostSpec]") -> float:
    """Return the longest time in which a coordinator that works ends a cluster of these hosts.

    Hosts that join may be those of a batch job, which has to end as well.
    """
    job_s = JOB_END_S if any(host.launcher == "join" for host in hosts) else 0.0
    return CONTROLLER_END_S + AGENTS_WORD_S + AGENT_END_S + job_s + _CLOSING_S
