import pytest

from jupyter_dist.model.text import name_some
from jupyter_dist.model.versions import describe_differences

HERE = {"python": "3.11.2", "jupyter-dist": "1.0", "numpy": "2.1.0"}


def test_hosts_that_are_alike_are_not_worth_a_word():
    assert describe_differences(HERE, {"a": HERE, "b": dict(HERE)}) == ()
    assert describe_differences(HERE, {}) == ()
    assert describe_differences({}, {}) == ()


def test_each_package_that_differs_has_a_sentence_with_the_most_common_version_first():
    old = {**HERE, "numpy": "1.26.4"}
    assert describe_differences(HERE, {"a": old, "b": HERE}) == (
        "numpy differs: 2.1.0 on the notebook's side, b; 1.26.4 on a",
    )


def test_a_missing_package_is_a_difference():
    assert describe_differences(HERE, {"a": {**HERE, "jax": "0.7.0"}, "b": HERE}) == (
        "jax differs: 0.7.0 on a; none on b",
    )


@pytest.mark.parametrize(
    ("theirs", "differs"), [("3.11.9", False), ("3.12.2", True), ("3.1.2", True)]
)
def test_of_python_only_the_minor_version_counts(theirs, differs):
    told = describe_differences(HERE, {"a": {**HERE, "python": theirs}})
    assert bool(told) == differs


def test_the_minor_version_of_python_is_what_is_told():
    told = describe_differences(HERE, {"a": {**HERE, "python": "3.12.2"}})
    assert told == ("python differs: 3.11 on the notebook's side; 3.12 on a",)


@pytest.mark.parametrize("package", ["jupyter-dist", "jax", "cupy", "torch", "nccl", "driver"])
def test_every_difference_of_what_ranks_share_is_told(package):
    (told,) = describe_differences({}, {"a": {package: "1.0.0"}, "b": {package: "1.0.1"}})
    assert told == f"{package} differs: 1.0.0 on a; 1.0.1 on b"


def test_packages_nobody_asked_about_are_left_out():
    assert describe_differences({}, {"a": {"scipy": "1"}, "b": {"scipy": "2"}}) == ()


def test_a_long_list_of_hosts_is_cut():
    hosts = {f"n{number}": HERE for number in range(20)}
    (told,) = describe_differences({}, {**hosts, "odd": {**HERE, "numpy": "1.0"}})
    assert told == "numpy differs: 2.1.0 on n0, n1, n2, n3, n4 and 15 more; 1.0 on odd"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, ""),
        (1, "n0"),
        (6, "n0, n1, n2, n3, n4, n5"),
        (7, "n0, n1, n2, n3, n4 and 2 more"),
        (1000, "n0, n1, n2, n3, n4 and 995 more"),
    ],
)
def test_names_are_joined_and_long_lists_say_how_many_more(count, text):
    assert name_some([f"n{number}" for number in range(count)]) == text


def test_what_only_the_notebooks_side_lacks_it_may_not_need():
    hosts = {"a": {**HERE, "jax": "0.7.0"}, "b": {**HERE, "jax": "0.7.0"}}
    assert describe_differences(HERE, hosts) == ()
    assert describe_differences({**HERE, "jax": "0.6.0"}, hosts) != ()
