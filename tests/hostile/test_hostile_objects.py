"""Whatever an object does while it travels, the error is true, and everything else stays."""

import numpy as np
import pytest

from jupyter_dist.errors import DistError, TransferError

from .conftest import VICTIM
from .objects import FATAL, PULLED, SURVIVED, UNPACKABLE, Arrives, OnlyOn

ON_ALL_RANKS = ("raises", "exits", "is interrupted", "never ends to call itself")
VALUES = [
    float("nan"),
    "\ud800",
    "",
    b"\0" * 3,
    2**4000,
    {1: {None: (2, [3])}},
    np.array([], dtype="f8"),
    np.array(5),
    np.zeros((0, 3), dtype="i1"),
    np.array(["a", "\U0010ffff"]),
    np.ma.masked_array([1, 2], [True, False]),
    np.arange(12).reshape(3, 4)[::-1, ::2],
    type("Local", (), {"x": 5})(),
]


@pytest.fixture
def sent(scene, in_background):
    """Push an object in the background; gives the error that comes, or None."""

    def send(value, within_s=5.0, **options):
        return in_background(scene.cluster.push, {"odd": value}, **options).exception(within_s)

    return send


@pytest.mark.parametrize("name", [*SURVIVED, *FATAL])
def test_an_object_that_misbehaves_on_one_rank_is_an_error_of_that_rank_alone(name, scene, sent):
    code, words = {**SURVIVED, **FATAL}[name]
    error = sent(OnlyOn(VICTIM, code))
    assert isinstance(error, TransferError), error
    assert f"rank {VICTIM}" in str(error)
    assert words in str(error)
    assert scene.cluster.run("assert odd is None; del odd", ranks=0).ok
    if name in FATAL:
        scene.heal()
    scene.assert_as_before()


@pytest.mark.parametrize("name", ON_ALL_RANKS)
def test_an_object_that_misbehaves_on_all_ranks_ends_none(name, scene, sent):
    code, words = SURVIVED[name]
    error = sent(Arrives(code))
    assert isinstance(error, TransferError), error
    assert words in str(error)
    scene.assert_as_before()


@pytest.mark.parametrize("name", UNPACKABLE)
def test_an_object_that_cannot_leave_is_an_error_here(name, scene, sent):
    error = sent(UNPACKABLE[name]())
    if isinstance(error, KeyboardInterrupt):
        assert "interrupted" in name  # as if by Ctrl-C, which must not be swallowed
    else:
        assert isinstance(error, DistError), error
        assert "odd" in str(error)
    assert scene.cluster.run("'odd' in globals()")[0].value_repr == "False"
    scene.assert_as_before()


@pytest.mark.parametrize("name", PULLED)
def test_an_object_that_cannot_come_is_an_error_that_names_the_rank(name, scene, in_background):
    made = f"if rank == {VICTIM}:\n" + "".join(
        f"    {line}\n" for line in PULLED[name].splitlines()
    )
    assert scene.cluster.run(f"odd = 5\n{made}").ok
    error = in_background(scene.cluster.pull, "odd").exception(5)
    if isinstance(error, KeyboardInterrupt):
        assert name == "is interrupted here"  # as if by Ctrl-C, which must not be swallowed
    else:
        assert isinstance(error, TransferError), error
        assert f"rank {VICTIM}" in str(error)
    assert in_background(scene.cluster.pull, "odd", ranks=0).result(5) == {0: 5}
    assert in_background(scene.cluster.who, "odd").result(5) is not None
    assert scene.cluster.run("del odd").ok
    scene.assert_as_before()


@pytest.mark.parametrize(
    "value",
    VALUES,
    ids=lambda value: (
        f"{type(value).__name__} {value!r}"[:30].encode("ascii", "backslashreplace").decode()
    ),
)
def test_an_odd_value_comes_back_as_it_went(value, scene, in_background):
    in_background(scene.cluster.push, {"odd": value}).result(5)
    found = in_background(scene.cluster.pull, "odd").result(5)
    assert sorted(found) == [0, 1]
    for came in found.values():
        np.testing.assert_equal(getattr(came, "x", came), getattr(value, "x", value))
    assert scene.cluster.run("del odd").ok
    scene.assert_as_before()
