import inspect
import pickle

import pytest

from jupyter_dist import errors
from jupyter_dist.errors import (
    CellFailed,
    CellInterrupted,
    CellTimedOut,
    ClusterExists,
    ClusterGone,
    CollectiveMismatch,
    DistError,
    HostSpecError,
    NoCluster,
    PeerFailed,
    RankLost,
    RankRaised,
    UnknownRanks,
    VersionMismatch,
)

CLASSES = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if kind.__module__ == errors.__name__ and kind is not errors.ErrorCode
]


def test_the_docstring_draws_every_error_below_its_parent():
    drawn = {}
    path = []
    for line in errors.__doc__.splitlines():
        name = line.lstrip("│├└─ ").split(" ")[0].rstrip()
        if name not in vars(errors):
            continue
        depth = (len(line) - len(line.lstrip("│├└─ "))) // 4
        path = [*path[:depth], name]
        drawn[name] = path[depth - 1] if depth else None
    actual = {
        kind.__name__: None if kind is DistError else kind.__bases__[0].__name__ for kind in CLASSES
    }
    assert drawn == actual


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_is_a_dist_error(kind):
    assert issubclass(kind, DistError)


def test_a_usage_error_can_be_caught_as_a_value_error():
    with pytest.raises(ValueError, match="localhost:4"):
        raise HostSpecError("nonsense", "it is odd")


@pytest.mark.parametrize(
    ("error", "next_step"),
    [
        (HostSpecError("a", "no slots"), "for example localhost:4"),
        (UnknownRanks("9", 4), "ranks 0-3"),
        (ClusterExists("demo"), "%dist_attach demo"),
        (NoCluster(None), "%dist_start"),
        (ClusterGone("demo", "it ended"), "%dist_start"),
        (VersionMismatch("a/1", "a/2"), "Install the same jupyter-dist on both"),
    ],
)
def test_the_text_says_what_to_do_next(error, next_step):
    assert next_step in str(error)


def test_no_cluster_tells_which_ones_run():
    text = str(NoCluster("x", ["one", "two"]))
    assert "no cluster named 'x'" in text
    assert "one, two" in text


def test_no_cluster_without_a_name_asks_for_one_when_several_run():
    assert "more than one cluster is running" in str(NoCluster(None, ["one", "two"]))


def test_a_rank_that_raised_renders_as_the_users_traceback_headed_by_its_rank():
    error = RankRaised(3, "ZeroDivisionError", "division by zero", ["Traceback…", "boom"], "1 lost")
    assert error._render_traceback_() == ["rank 3 raised; 1 lost", "Traceback…", "boom"]


def test_a_rank_that_raised_without_a_traceback_still_names_its_error():
    assert RankRaised(3, "KeyError", "'a'", ())._render_traceback_()[-1] == "KeyError: 'a'"


def test_a_rank_that_raised_without_a_message_leaves_no_colon_behind():
    assert str(RankRaised(0, "AssertionError", "", ())) == "rank 0: AssertionError"


@pytest.mark.parametrize(
    "error",
    [RankLost(1, "killed", "2 ok"), CellInterrupted("rank 0 interrupted"), CellTimedOut("rank 0")],
)
def test_what_is_not_the_users_own_error_renders_as_one_line(error):
    assert error._render_traceback_() == [f"{type(error).__name__}: {error}"]
    assert isinstance(error, CellFailed)


def test_a_failed_peer_without_a_rank_does_not_name_one():
    assert str(PeerFailed(2, "raised KeyError")) == "rank 2 raised KeyError"
    assert str(PeerFailed(-1, "the cell was interrupted")) == "the cell was interrupted"


def test_a_mismatch_names_both_calls():
    text = str(CollectiveMismatch(0, "all_reduce(f4)", 1, "barrier()"))
    assert text == "rank 0 called all_reduce(f4), but rank 1 called barrier()"
    text = str(CollectiveMismatch(0, "step()", 1, "step()", difference=", on another mesh"))
    assert text == "rank 0 called step(), on another mesh, but rank 1 called step()"


@pytest.mark.parametrize("error", [RankLost(1, "killed"), PeerFailed(1, "left")])
def test_errors_keep_what_they_know_in_attributes(error):
    assert error.rank == 1
    assert error.reason in str(error)


def test_a_simple_error_survives_pickling():
    error = pickle.loads(pickle.dumps(CellInterrupted("rank 0 interrupted")))
    assert (type(error), str(error)) == (CellInterrupted, "rank 0 interrupted")
