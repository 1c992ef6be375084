"""A version of JAX that lacks what we use of its inside: it works on, and it is said what is lost."""

import contextlib
import types

import pytest

from jupyter_dist.frameworks.jax.private_dispatch import BRIDGE, PJIT, PXLA, PrivateDispatch

PARTS = ["pxla.ExecuteReplicated", "pjit._get_fastpath_data", "make_gloo_tcp_collectives"]


class Hooks:
    """Remembers who wants to be called after which import."""

    def __init__(self):
        self.calls = {}

    def after(self, module, call):
        self.calls[module] = call


class Replicated:
    """Like an executable of JAX whose devices are all of this process."""

    def __init__(self, *devices, **changes):
        sharding = types.SimpleNamespace(_device_assignment=devices, is_fully_replicated=True)
        self.name = "jit(step)"
        self.xla_executable = types.SimpleNamespace(local_devices=lambda: devices[:1])
        self.in_handler = types.SimpleNamespace(in_shardings=[sharding])
        self.out_handler = types.SimpleNamespace(out_shardings=[sharding], out_avals=[])
        for name, value in changes.items():
            setattr(self, name, value)

    def __call__(self, *args):
        return [sum(args)]


def make_modules(*, lacking=()):
    """Give modules like those of JAX, without some of their parts."""
    kind = type("ExecuteReplicated", (Replicated,), {"__call__": Replicated.__call__})
    native = types.SimpleNamespace(make_gloo_tcp_collectives=lambda: "gloo")
    pxla = types.SimpleNamespace(ExecuteReplicated=kind)
    pjit = types.SimpleNamespace(_get_fastpath_data=lambda *_values: "fast")
    bridge = types.SimpleNamespace(_jax=native)
    for part, owner in zip(PARTS, (pxla, pjit, native), strict=True):
        if part in lacking:
            delattr(owner, part.rpartition(".")[2])
    jax = types.SimpleNamespace(__version__="0.99")
    return {PXLA: pxla, PJIT: pjit, BRIDGE: bridge, "jax": jax}


@pytest.fixture
def told():
    return []


@pytest.fixture
def imported(told):
    """Import such a JAX; gives its modules."""

    def install(modules):
        hooks = Hooks()
        launch = pytest.fail  # nothing of this process alone is seen
        PrivateDispatch(launch, contextlib.nullcontext, told.append).install(hooks)
        for name, module in modules.items():
            hooks.calls[name](module)
        return modules

    return install


def test_of_a_version_that_has_everything_nothing_is_said(imported, told):
    imported(make_modules())
    assert told == []


@pytest.mark.parametrize("part", PARTS)
def test_what_is_lacking_is_told_once_with_what_is_lost(imported, told, part):
    modules = imported(make_modules(lacking=[part]))
    (sentence,) = told
    assert sentence.startswith(f"JAX 0.99 has no {part}, which jupyter-dist uses: ")
    if part != PARTS[0]:
        assert modules[PXLA].ExecuteReplicated("cpu 0")(1, 2) == [3]
    if part != PARTS[1]:
        assert modules[PJIT]._get_fastpath_data() == "fast"
    if part != PARTS[2]:
        assert modules[BRIDGE]._jax.make_gloo_tcp_collectives() == "gloo"


def test_all_may_be_lacking(imported, told):
    imported(make_modules(lacking=PARTS))
    assert len(told) == 3


@pytest.mark.parametrize("part", ["xla_executable", "in_handler", "out_handler"])
def test_an_executable_that_is_made_otherwise_runs_as_it_is(imported, told, part):
    modules = imported(make_modules())
    executable = modules[PXLA].ExecuteReplicated("cpu 0", "cpu 1", **{part: object()})
    assert [executable(1, 2), executable(3, 4)] == [[3], [7]]
    assert modules[PJIT]._get_fastpath_data(types.SimpleNamespace(unsafe_call=executable)) == "fast"
    (sentence,) = told
    assert sentence.startswith("JAX 0.99 ")
    assert "no record" in sentence
