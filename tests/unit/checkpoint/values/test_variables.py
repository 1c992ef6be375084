"""Which variables are saved, and what is said of those that are not."""

import json
import threading
from collections import OrderedDict
from math import sqrt

import numpy as np
import pytest

from jupyter_dist.checkpoint.values.variables import check_names, choose_variables
from jupyter_dist.errors import CheckpointFailed, UsageError

OF_A_CELL: dict = {"__name__": "__main__"}
exec("def double(x): return 2 * x\nclass Model: pass", OF_A_CELL)


def test_without_names_all_that_can_be_saved_is():
    variables = {
        "weights": np.ones(2),
        "_hidden": 1,
        "json": json,
        "dumps": json.dumps,
        "sqrt": sqrt,
        "OrderedDict": OrderedDict,
        "double": OF_A_CELL["double"],
        "Model": OF_A_CELL["Model"],
        "lock": threading.Lock(),
    }
    chosen = choose_variables(variables, None, {})
    assert chosen.saved == ("Model", "double", "weights")
    assert list(chosen.left_out) == ["lock"]
    assert chosen.left_out["lock"].startswith("_thread.lock: TypeError: ")


def test_names_choose():
    chosen = choose_variables({"b": 1, "a": 2, "_c": 3}, ["b", "_c"], {})
    assert [leaf.path for leaf in chosen.taken.leaves] == ["['_c']", "['b']"]
    assert chosen.left_out == {}


def test_marks_with_an_axis_make_blocks():
    variables = {"block": np.ones((2, 3)), "own": np.ones(2)}
    chosen = choose_variables(variables, None, {"block": 1, "own": None})
    block, own = (leaf.content for leaf in chosen.taken.leaves)
    assert (block.is_whole, block.sharding.axis) == (False, 1)
    assert own.is_whole


def test_a_name_that_is_not_there_is_told_with_what_is():
    with pytest.raises(CheckpointFailed, match=r"'weight' .*Accepted: weights, steps\."):
        choose_variables({"steps": 1, "weights": 2}, ["weight"], {})
    with pytest.raises(CheckpointFailed, match="'weight'"):
        choose_variables({}, ["weight"], {})


def test_of_many_names_some_are_told():
    with pytest.raises(CheckpointFailed, match="x04 and 25 more"):
        choose_variables({f"x{number:02}": 1 for number in range(30)}, ["y"], {})


def test_a_named_value_that_cannot_be_saved_is_an_error():
    with pytest.raises(UsageError, match=r"\['lock'\].*pickle"):
        choose_variables({"lock": threading.Lock()}, ["lock"], {})


@pytest.mark.parametrize(
    ("names", "found"), [(None, None), (["a", "b", "a"], ["a", "b"]), ((), []), ({"a": 1}, ["a"])]
)
def test_names_are_a_list_without_doubles(names, found):
    assert check_names(names) == found


@pytest.mark.parametrize("names", ["ab", 3, ["a b"], ["a", 1], [""]])
def test_what_are_no_names_is_refused(names):
    with pytest.raises(UsageError, match="Accepted: "):
        check_names(names)
