import pytest
from fakes.seen_hosts import assert_finds, briefs, observe, troubles
from msgspec.structs import replace

from jupyter_dist.cluster.doctor.diagnosis import NOTEBOOK, Gpu
from jupyter_dist.cluster.doctor.findings import diagnose


def versions(**packages):
    return {"versions": {"numpy": "2.4.0", **packages}}


JAX_6 = dict.fromkeys("bc", versions(jax="0.6"))
BOTH = dict.fromkeys("bc", versions(jax="0.6", torch="2.7"))
OLDER = ("Python 3.12.1 ", " 3.11.7 ")


@pytest.mark.parametrize(
    ("facts", "where", "level", "words"),
    [
        ({"b": {"python": "3.9.18"}}, "b python", "bad", ("3.11", "/usr/bin/python3", "3.9.18")),
        # Another patch is none.
        ({"b": {"python": "3.12.1"}, "c": {"python": "3.11.2"}}, "b python", "warning", OLDER),
        (
            {"a": versions(jax="0.5"), **JAX_6},
            "a versions",
            "warning",
            ("jax is 0.5 ", "0.6 on b, c"),
        ),
        # Once for each host that lacks them.
        (BOTH, "a versions", "warning", ("jax, torch ", " b, c")),
    ],
)
def test_a_host_that_differs_is_told_with_what_it_has(facts, where, level, words):
    assert_finds(observe(**facts), *where.split(), level, words)


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        ({"import_problem": "No module named 'jupyter_dist'"}, "bad", "/usr/bin/python3 "),
        ({"import_problem": "x: msgspec"}, "bad", "(x: msgspec)"),
        ({"wire": "jupyter-dist/9", "release": "0.3.0"}, "bad", ("0.3.0 ", " jupyter-dist/9")),
        ({"wire": "jupyter-dist/4", "release": "0.1.1"}, "warning", ("0.1.1 ", " 0.1.0 ")),
    ],
)
def test_another_jupyter_dist_is_as_bad_as_what_it_says(changes, level, words):
    observation = observe(a={"wire": "", "release": "", **changes})
    assert_finds(observation, "a", "jupyter-dist", level, words, "--install")
    installed = replace(observation, will_install=True)
    assert troubles(installed) == []
    assert "will be 0.1.0" in briefs(installed, "jupyter-dist")["a"]


def test_a_package_that_does_not_matter_may_differ():
    assert not troubles(observe(a=versions(ipython="8"), b=versions(ipython="9")))


@pytest.mark.parametrize(("gpus", "level"), [(0, "warning"), (1, "bad")])
def test_nccl_that_differs_is_bad_where_gpus_are_used(gpus, level):
    cards = tuple(Gpu(index=index, uuid=f"u{index}") for index in range(gpus))
    observation = observe(
        a=versions(nccl="2.27.3"),
        b=versions(nccl="2.26.2") | {"gpus": cards},
        c=versions(nccl="2.27.3") | {"gpus": cards},
    )
    ((host, found, what),) = troubles(observation, "versions")
    assert (host, found) == ("b", level)
    assert "nccl is 2.26.2 " in what
    assert what.endswith(" 2.27.3 on a, c")


def test_the_table_of_versions_has_the_notebook_and_what_anybody_has():
    table = diagnose(observe(b=versions(jax="0.6"), c={"release": "", "versions": {}})).versions
    assert table["python"] == dict.fromkeys((NOTEBOOK, "a", "b", "c"), "3.11.7")
    assert table["jupyter-dist"] == dict.fromkeys((NOTEBOOK, "a", "b"), "0.1.0")
    assert table["jax"] == {"b": "0.6"}
    assert "torch" not in table
