import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.model.spec.sendable import check_sendable

TEXTS = st.text(st.characters(), max_size=8)
SCALARS = TEXTS | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.booleans() | st.none()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=8
)


def leaves(value):
    """Everything that is in a value, keys too."""
    if isinstance(value, dict):
        return [leaf for pair in value.items() for each in pair for leaf in leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [value]


@given(VALUES)
def test_what_is_let_through_arrives_as_it_was_and_all_else_is_named(value):
    said = problem_of(value)
    if said:
        assert "option" in said.encode().decode()
        assert any(is_odd(leaf) for leaf in leaves(value)), "this can be sent"
    else:
        assert msgspec.json.decode(msgspec.json.encode(value)) == value
        assert not any("\0" in leaf for leaf in leaves(value) if isinstance(leaf, str))


def problem_of(value):
    """Say why it cannot be sent; empty: it can."""
    try:
        check_sendable({"option": value})
    except UsageError as error:
        return str(error)
    return ""


def is_odd(leaf):
    """Tell whether this may be refused."""
    if isinstance(leaf, float):
        return not math.isfinite(leaf)
    return isinstance(leaf, str) and any(
        each == "\0" or "\ud800" <= each <= "\udfff" for each in leaf
    )


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (Path("a\udcff"), "option ="),
        ({"A": "\udcff"}, r"option\['A'\]"),
        ({"\udcff": "A"}, "a name in option"),
        ((HostSpec("a"), HostSpec("b", python="\0")), r"option\[1\].python"),
        (b"x", "it is bytes"),
    ],
)
def test_the_place_of_what_cannot_be_sent_is_named(value, where):
    with pytest.raises(UsageError, match=where):
        check_sendable({"fine": "é\n", "option": value})
