"""Names that belong to the cluster, and cells that bind them."""

import pytest

from jupyter_dist.engine.execution.reserved_names import find_binding

BINDINGS = {
    "x = 1\nrank = 5": 2,
    "x, (y, *rank) = 1, (2, 3)": 1,
    "rank += 1": 1,
    "rank: int = 3": 1,
    "del x, rank": 1,
    "for i, rank in enumerate('ab'):\n    pass": 1,
    "import rank.b": 1,
    "import a as b\nfrom a import c as rank": 2,
    "with open('f') as rank:\n    pass": 1,
    "def rank():\n    pass": 1,
    "class rank:\n    pass": 1,
    "async def f():\n    global rank\n    rank = 1": 2,
    "try:\n    pass\nexcept ValueError as rank:\n    pass": 3,
    "if x:\n    (rank := 4)": 2,
    "y = [(rank := i) for i in x]": 1,
    "match x:\n    case [*rank]:\n        pass": 2,
    "match x:\n    case {'a': 1, **rank}:\n        pass": 2,
    "match x:\n    case int() as rank:\n        pass": 2,
    "rank == 5": 0,
    "a.rank = 5; b['rank'] = 3; f(rank=2)": 0,
    "y = [rank for rank in x]": 0,
    "def f(rank):\n    rank = 3\n    return lambda rank: rank": 0,
    "class A:\n    rank = 3": 0,
    "this is no Python": 0,
}


@pytest.mark.parametrize("code", BINDINGS)
def test_the_line_that_binds_a_global_name_is_found(code):
    assert find_binding(code, "rank") == BINDINGS[code]
