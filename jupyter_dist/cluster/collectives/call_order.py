"""One order for the calls of all ranks that agrees with the order of each. Pure."""

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def merge_orders(orders: Iterable[Sequence[Key]], times: Mapping[Key, int]) -> list[Key]:
    """Merge sequences into one that agrees with all of them; by time where they leave a choice.

    Where they contradict each other, the earliest of what is left goes first.
    """
    followers: dict[Key, set[Key]] = {key: set() for key in times}
    before = dict.fromkeys(times, 0)
    for order in orders:
        for one, other in pairwise(order):
            if one != other and other not in followers[one]:
                followers[one].add(other)
                before[other] += 1
    numbers = {key: number for number, key in enumerate(times)}
    free = [(times[key], numbers[key], key) for key, count in before.items() if not count]
    heapq.heapify(free)
    left = dict.fromkeys(sorted(times, key=lambda key: (times[key], numbers[key])))
    merged: list[Key] = []
    while left:
        key = heapq.heappop(free)[2] if free else next(iter(left))
        if key not in left:
            continue
        del left[key]
        merged.append(key)
        for follower in followers[key]:
            before[follower] -= 1
            if not before[follower] and follower in left:
                heapq.heappush(free, (times[follower], numbers[follower], follower))
    return merged
