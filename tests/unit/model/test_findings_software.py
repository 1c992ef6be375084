import pytest
from fakes.seen_hosts import briefs, observe, the_only, troubles
from msgspec.structs import replace

from jupyter_dist.model.diagnosis import NOTEBOOK, Gpu
from jupyter_dist.model.findings import diagnose


def test_a_python_that_is_too_old_is_bad():
    finding = the_only(observe(b={"python": "3.9.18"}))
    assert (finding.host, finding.subject, finding.level) == ("b", "python", "bad")
    assert "needs Python 3.11 or newer; /usr/bin/python3 is 3.9.18" in finding.what
    assert "--python" in finding.next_step


def test_another_minor_version_than_the_notebooks_is_a_warning_and_another_patch_is_none():
    finding = the_only(observe(b={"python": "3.12.1"}, c={"python": "3.11.2"}))
    assert (finding.host, finding.level) == ("b", "warning")
    assert "Python 3.12.1 there and 3.11.7 in the notebook" in finding.what


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        (
            {"import_problem": "ModuleNotFoundError: No module named 'jupyter_dist'"},
            "bad",
            "/usr/bin/python3 has no jupyter-dist",
        ),
        (
            {"import_problem": "ModuleNotFoundError: No module named 'msgspec'"},
            "bad",
            "cannot be imported by /usr/bin/python3 (ModuleNotFoundError: No module named 'msgs",
        ),
        (
            {"wire": "jupyter-dist/2", "release": "0.3.0"},
            "bad",
            "0.3.0 there speaks jupyter-dist/2, 0.1.0 in the notebook jupyter-dist/1",
        ),
        (
            {"wire": "jupyter-dist/1", "release": "0.1.1"},
            "warning",
            "jupyter-dist 0.1.1 there and 0.1.0 in the notebook",
        ),
    ],
)
def test_another_jupyter_dist_is_as_bad_as_what_it_says(changes, level, words):
    observation = observe(a={"wire": "", "release": "", **changes})
    finding = the_only(observation)
    assert (finding.host, finding.subject, finding.level) == ("a", "jupyter-dist", level)
    assert words in finding.what
    assert "--install" in finding.next_step
    installed = replace(observation, will_install=True)
    assert troubles(installed) == []
    assert "will be 0.1.0" in briefs(installed, "jupyter-dist")["a"]


def versions(**packages):
    return {"versions": {"numpy": "2.4.0", **packages}}


def test_the_host_that_differs_from_most_is_the_odd_one():
    finding = the_only(observe(a=versions(jax="0.5"), b=versions(jax="0.6"), c=versions(jax="0.6")))
    assert (finding.host, finding.subject, finding.level) == ("a", "versions", "warning")
    assert finding.what == "jax is 0.5 there, and 0.6 on b, c"


def test_packages_that_only_some_hosts_have_are_told_once_for_each_that_lacks_them():
    finding = the_only(
        observe(b=versions(jax="0.6", torch="2.7"), c=versions(jax="0.6", torch="2.7"))
    )
    assert (finding.host, finding.level) == ("a", "warning")
    assert finding.what == "jax, torch are missing there, but not on b, c"


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
    assert "nccl is 2.26.2 there, and 2.27.3 on a, c" in what


def test_the_table_of_versions_has_the_notebook_and_what_anybody_has():
    table = diagnose(observe(b=versions(jax="0.6"), c={"release": "", "versions": {}})).versions
    assert table["python"] == dict.fromkeys((NOTEBOOK, "a", "b", "c"), "3.11.7")
    assert table["jupyter-dist"] == dict.fromkeys((NOTEBOOK, "a", "b"), "0.1.0")
    assert table["jax"] == {"b": "0.6"}
    assert "torch" not in table
