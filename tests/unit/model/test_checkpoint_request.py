import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.checkpoint_request import (
    check_checkpoint_name,
    check_keep_last,
    check_step,
    check_variables,
)


@pytest.mark.parametrize("name", ["run1", "a", "2026-11-22", "big_model.v2", "_x", "x" * 100])
def test_names_that_can_be_those_of_directories_are_accepted(name):
    assert check_checkpoint_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "a/b", "../a", "/a", "a b", "-x", "x" * 101, "a\n", "ä"]
)
def test_names_that_lead_elsewhere_are_refused(name):
    with pytest.raises(UsageError, match=r"checkpoint name .* is not accepted. Use letters"):
        check_checkpoint_name(name)


def test_a_name_is_no_step_of_another_checkpoint():
    with pytest.raises(UsageError, match="not the form step-N"):
        check_checkpoint_name("step-00000003")
    assert check_checkpoint_name("step-by-step") == "step-by-step"


def test_variables_are_named_once_and_in_order():
    assert check_variables(["b", "a", "b"]) == ("b", "a")


@pytest.mark.parametrize("name", ["w[0]", "model.weights", "1a", "", "--al", 7])
def test_what_is_no_variable_is_refused_with_what_to_do(name):
    with pytest.raises(UsageError, match=r"is not the name of a variable; .* in a cell first"):
        check_variables(["a", name])


@pytest.mark.parametrize("count", [None, 1, 7])
def test_so_many_checkpoints_can_be_kept(count):
    assert check_keep_last(count) == count


@pytest.mark.parametrize("count", [0, -1, True])
def test_the_newest_checkpoint_is_always_kept(count):
    with pytest.raises(UsageError, match="give 1 or more"):
        check_keep_last(count)


@pytest.mark.parametrize("step", [None, 0, 12])
def test_a_step_is_a_number_or_the_newest(step):
    assert check_step(step) == step


@pytest.mark.parametrize("step", [-1, "3", 1.5, True])
def test_other_steps_are_refused(step):
    with pytest.raises(UsageError, match=r"step .* is not accepted: give 0 or more"):
        check_step(step)
