from collections import OrderedDict

import numpy as np
import pytest

from jupyter_dist.engine.observation.showing import MOST_CHARACTERS, show_place
from jupyter_dist.protocol.messages import NoAnswer, ValueShown


class Untouchable:
    """Every code of it that runs is a failure."""

    limit = 3

    def __init__(self):
        self.plain = [1, 2]

    def _fail(self, *_):
        raise SystemExit("code of a class was run")

    __getattr__ = __getitem__ = __len__ = __repr__ = __str__ = __eq__ = __hash__ = _fail
    computed = property(_fail)
    method = _fail


class Slotted:
    __slots__ = ("a",)


SLOTTED = Slotted()
SLOTTED.a = 5
OBJECTS = np.empty(2, object)
OBJECTS[0] = Untouchable()
NAMES = {
    "w": np.arange(12.0).reshape(3, 4),
    "big": list(range(100_000)),
    "odd": np.array([1, np.nan, -np.inf, 4], "f4"),
    "state": OrderedDict(loss=[3, 2, 1]),
    "text": "x" * 1_000_000,
    "mine": Untouchable(),
    "slotted": SLOTTED,
    "objects": OBJECTS,
}


def shown(place, most=1000):
    answer = show_place(NAMES, place, most)
    assert isinstance(answer, ValueShown), answer
    return answer.text


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("w[1, 2]", "float64 float64 scalar\n6."),
        ("w[0, :2]", "ndarray float64 2, 0.0 to 1.0\n[0., 1.]"),
        ("odd", "ndarray float32 4, 1.0 to 4.0, 2 not finite\n[  1.,  nan, -inf,   4.]"),
        ("state['loss'][-1]", "int\n1"),
        ("state['loss']", "list 3 items\n[3, 2, 1]"),
        ("big[99_998:]", "list 2 items\n[99998, 99999]"),
        ("big[2::-1]", "list 3 items\n[2, 1, 0]"),
        ("mine", "Untouchable"),
        ("mine.plain[1]", "int\n2"),
        ("mine.limit", "int\n3"),
        ("slotted.a", "int\n5"),
        ("objects", "ndarray object 2"),
    ],
)
def test_a_part_is_shown_with_what_it_is(place, told):
    assert shown(place) == told


@pytest.mark.parametrize("place", ["big", "text", "w", "big[::-1]", "text[5:]"])
def test_a_huge_value_is_shown_in_part(place):
    assert len(shown(place, 100)) < 200
    assert len(shown(place, 10**9)) < MOST_CHARACTERS + 100


@pytest.mark.parametrize(
    "place",
    [
        "absent",
        "w[9]",
        "w[0, 0, 0]",
        "w['x']",
        "state['nope']",
        "big['x']",
        "mine.computed",
        "mine.method",
        "mine.absent",
        "mine[0]",
        "objects[0]",
        "1 + 1",
    ],
)
def test_what_is_not_there_or_would_run_code_is_told(place):
    assert isinstance(show_place(NAMES, place, 100), NoAnswer)
