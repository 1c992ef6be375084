"""A version of JAX that lacks what we use of its inside: it works on, and it is said what is lost."""

import contextlib
import sys
import types

import pytest
from fakes.jax_launching import put_in_place

from jupyter_dist.frameworks.jax.private.dispatch import BRIDGE, PrivateDispatch

PARTS = ["pxla.ExecuteReplicated", "pjit._get_fastpath_data", "make_gloo_tcp_collectives"]


@pytest.fixture
def told():
    return []


@pytest.fixture
def imported(told, monkeypatch):
    """Import a JAX without these parts, where nothing of this process alone is seen."""

    def install(*lacking):
        dispatch = PrivateDispatch(pytest.fail, contextlib.nullcontext, told.append)
        names = [part.rpartition(".")[2] for part in lacking]
        return put_in_place(monkeypatch, dispatch, names)

    return install


def test_of_a_version_that_has_everything_nothing_is_said(imported, told):
    imported()
    assert told == []


@pytest.mark.parametrize("part", PARTS)
def test_what_is_lacking_is_told_once_with_what_is_lost(imported, told, part):
    kind, pjit = imported(part)
    (sentence,) = told
    assert f"JAX 0.0 has no {part}" in sentence
    assert kind(sum, processes=(0,))((1, 2)) == 3
    if part != PARTS[1]:
        assert pjit._get_fastpath_data("f") == "fast f"
    if part != PARTS[2]:
        assert sys.modules[BRIDGE]._jax.make_gloo_tcp_collectives() == "gloo"


def test_all_may_be_lacking(imported, told):
    imported(*PARTS)
    assert len(told) == 3


@pytest.mark.parametrize("part", ["xla_executable", "in_handler", "out_handler"])
def test_an_executable_that_is_made_otherwise_runs_as_it_is(imported, told, part):
    kind, pjit = imported()
    executable = kind(sum)
    setattr(executable, part, object())
    assert [executable((1, 2)), executable((3, 4))] == [3, 7]
    fast = types.SimpleNamespace(unsafe_call=executable)
    assert pjit._get_fastpath_data(fast) == f"fast {fast}"
    (sentence,) = told
    assert "JAX 0.0" in sentence
