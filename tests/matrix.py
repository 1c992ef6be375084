"""Which cases of a long matrix `make test` runs, which `make test-all`, and which `make nightly` alone.

What is left to the night differs in one value only from a case that CI runs, or is a longer walk.
"""

import os

import pytest

NIGHTLY = pytest.mark.nightly


def few_or_many(variable, few, many):
    """Return a short length for a test, and a long one for the night, or what the environment names.

    A test may take 3 s for each.
    """
    given = os.environ.get(variable)
    marks = {int(given): ()} if given else {few: (), many: (NIGHTLY,)}
    return [
        pytest.param(length, marks=[pytest.mark.timeout(max(600, 3 * length)), *more])
        for length, more in marks.items()
    ]


def only(chosen, cases, at_night=()):
    """Return the cases; those that are not chosen are marked `nightly` if so wished, else `slow`."""
    return [
        case
        if case in chosen
        else pytest.param(case, marks=NIGHTLY if case in at_night else pytest.mark.slow)
        for case in cases
    ]


def each_value_once(pairs):
    """Return the pairs as cases; those few that have each value once are not marked `slow`."""
    chosen, missing = set(), {value for pair in pairs for value in pair}
    while missing:
        best = max(pairs, key=lambda pair: len(missing.intersection(pair)))
        chosen.add(best)
        missing -= set(best)
    return [
        pytest.param(*pair, id="-".join(pair), marks=() if pair in chosen else [pytest.mark.slow])
        for pair in pairs
    ]
