"""How many open files (sockets among them) the processes of a cluster need, as it was measured."""

_OF_A_COORDINATOR = 96
"""With two clients; 43 when it has just begun, and some for starts, transfers and strangers."""
_BY_RANK = 2
"""In the coordinator: its control channel and its heartbeats; in a rank: to and from each other."""
_BY_HOST = 5
"""The agent's stream, and what starts it there: ssh and its three pipes."""
_OF_A_RANK = 64
"""31 when it has just begun; what its cells open comes on top."""


def files_of_the_coordinator(ranks: int, hosts: int) -> int:
    """Return how many files the coordinator of so many ranks and hosts may have open."""
    return _OF_A_COORDINATOR + _BY_RANK * ranks + _BY_HOST * hosts


def files_of_a_rank(ranks: int) -> int:
    """Return how many files one of so many ranks may have open."""
    return _OF_A_RANK + _BY_RANK * ranks
