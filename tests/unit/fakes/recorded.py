"""What recorders would hold; times in milliseconds."""

from jupyter_dist.model.ranks.records import CallRecord, CellRecord, HostRecords, RankRecords

MS = 1_000_000
NOW_MS = 60_000
DAY_MS = 1_000_000_000
"""Time of day minus the host's clock."""


def call(operation, number, start_ms, end_ms=0, **more):
    """One call; without an end it still runs."""
    named = {"dtype": "float32", "shape": "4", "reduction": "sum", "nbytes": 16}
    arrays = named if operation == "all_reduce" else {}
    fields = {"site": "In[1]:7", **arrays, **more}
    return CallRecord(number, operation, int(start_ms * MS), int(end_ms * MS), **fields)


def cell(number, start_ms=0, end_ms=0):
    """One cell, labelled and called after its number."""
    return CellRecord(f"In[{number}]", int(start_ms * MS), int(end_ms * MS), f"cell-{number}")


def rank(number, *calls, cells=None, **more):
    """One rank, which is in cell 1 unless it is said otherwise."""
    begun = (cell(1),) if cells is None else tuple(cells)
    return RankRecords(number, tuple(calls), begun, **more)


def host(name, *ranks, now_ms=NOW_MS, ahead_ms=0.0):
    """One host, whose time of day is so much ahead of the right one."""
    time_ns = int((now_ms + DAY_MS + ahead_ms) * MS)
    return HostRecords(name, int(now_ms * MS), time_ns, tuple(ranks))
