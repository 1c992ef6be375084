import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.options.checkpoint_request import (
    check_checkpoint_name,
    check_keep_last,
    check_step,
    check_variables,
)

NAMES = ("run1", "a", "2026-11-22", "big_model.v2", "_x", "x" * 100, "step-by-step")
ELSEWHERE = ("", ".", "..", ".hidden", "a/b", "../a", "/a", "a b", "-x", "x" * 101, "a\n", "ä")
NO_VARIABLES = ("w[0]", "model.weights", "1a", "", "--al", 7)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        *((check_checkpoint_name, name) for name in NAMES),
        *((check_keep_last, count) for count in (None, 1, 7)),
        *((check_step, step) for step in (None, 0, 12)),
    ],
)
def test_what_can_be_meant_is_given_back(check, value):
    assert check(value) == value


@pytest.mark.parametrize(
    ("check", "value"),
    [
        *((check_checkpoint_name, name) for name in (*ELSEWHERE, "step-00000003")),
        *((check_keep_last, count) for count in (0, -1, True)),
        *((check_step, step) for step in (-1, "3", 1.5, True)),
        *((lambda name: check_variables(["a", name]), name) for name in NO_VARIABLES),
    ],
)
def test_what_cannot_be_meant_is_refused_and_named(check, value):
    with pytest.raises(UsageError) as raised:
        check(value)
    assert str(value) in str(raised.value).replace("\\n", "\n")


def test_variables_are_named_once_and_in_order():
    assert check_variables(["b", "a", "b"]) == ("b", "a")
