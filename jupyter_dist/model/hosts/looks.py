"""How often agents look at their engines and tell what they see: often while something goes on."""

LOOK_INTERVAL_S = 0.5
"""At least, where nothing forbids it: verdicts on hangs depend on it."""
_RARE_INTERVAL_S = 5.0
"""While nothing goes on there, at least."""
_MOST_TOLD_PER_S, _MOST_TOLD_RARELY_PER_S = 200, 20
"""By all agents together: to take in what one tells costs the coordinator about 0.3 ms."""


def least_look_interval_s(hosts: int) -> float:
    """Return the time between two looks, at least, for an agent of so many."""
    return hosts / _MOST_TOLD_PER_S


def rare_look_interval_s(hosts: int) -> float:
    """Return the time between two looks while nothing goes on, for an agent of so many."""
    return max(_RARE_INTERVAL_S, hosts / _MOST_TOLD_RARELY_PER_S)


def look_interval_s(hosts: int) -> float:
    """Return how old what a busy rank's agent has told can be, in seconds."""
    return max(LOOK_INTERVAL_S, least_look_interval_s(hosts))
