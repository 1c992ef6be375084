import math

import pytest

from jupyter_dist.frameworks.environment import framework_variables
from jupyter_dist.model.ranks.held_time import COLLECTIVE_TIMEOUT_S
from jupyter_dist.model.spec.cluster_spec import ClusterSpec

FLAG = "--xla_cpu_collective_timeout_seconds"
SKIPPING = "--xla_disable_hlo_passes"
APART = f"{SKIPPING}=cpu-all-reduce-combiner"


def test_the_time_that_no_one_has_chosen_is_that_of_cluster_specs():
    assert ClusterSpec(name="a", hosts=()).collective_timeout_s == COLLECTIVE_TIMEOUT_S


def variables(given=None, cores=2, jaxlib="0.10.2", timeout_s=1800.0):
    return framework_variables(given or {}, cores, jaxlib, timeout_s)


def test_xla_has_the_share_of_cores_unless_somebody_has_said_how_many():
    assert variables(cores=3)["NPROC"] == "3"
    assert "NPROC" not in variables({"NPROC": "7"})


def test_collectives_of_xla_end_after_the_time_of_all_collectives():
    assert variables(timeout_s=600.0)["XLA_FLAGS"] == f"{FLAG}=600 {APART}"
    assert variables(timeout_s=1800.0)["XLA_FLAGS"] == f"{FLAG}=5400 {APART}", "nobody has chosen"
    assert variables(timeout_s=0.2)["XLA_FLAGS"] == f"{FLAG}=1 {APART}"


@pytest.mark.parametrize("timeout_s", [1e12, math.inf])
def test_a_time_that_xla_could_not_read_is_cut(timeout_s):
    assert variables(timeout_s=timeout_s)["XLA_FLAGS"] == f"{FLAG}=1000000000 {APART}"


@pytest.mark.parametrize("jaxlib", ["0.8.2", "0.8.3", "0.9.0.1", "0.10.2", "0.10.9.dev1"])
def test_a_jaxlib_that_knows_the_flag_gets_it(jaxlib):
    assert FLAG in variables(jaxlib=jaxlib)["XLA_FLAGS"]


@pytest.mark.parametrize(
    "jaxlib", ["", "0.7.2", "0.8.1", "0.8.2.dev20251101", "0.8.2rc1", "0.11.0", "1.0.0", "main"]
)
def test_a_jaxlib_that_may_not_know_it_gets_none_because_it_would_abort(jaxlib):
    assert FLAG not in variables(jaxlib=jaxlib).get("XLA_FLAGS", "")


def test_collectives_on_cpu_stay_apart_where_jaxlib_knows_how():
    assert variables(jaxlib="0.7.2")["XLA_FLAGS"] == APART
    assert "XLA_FLAGS" not in variables(jaxlib="0.5.3")
    assert "XLA_FLAGS" not in variables(jaxlib="0.11.0")


def test_what_else_the_user_has_xla_skip_is_skipped_too():
    given = {"XLA_FLAGS": f"{SKIPPING}=dce,cse --xla_a=1 {FLAG}=5"}
    assert variables(given)["XLA_FLAGS"] == f"{APART},dce,cse --xla_a=1 {FLAG}=5"
    assert "XLA_FLAGS" not in variables({"XLA_FLAGS": f"{APART} {FLAG}=5"})


def test_the_users_flags_stay_and_win():
    assert variables({"XLA_FLAGS": "--xla_a=1"})["XLA_FLAGS"] == f"--xla_a=1 {FLAG}=5400 {APART}"
    assert (
        variables({"XLA_FLAGS": f"--xla_a=1 {FLAG}=5"})["XLA_FLAGS"]
        == f"--xla_a=1 {FLAG}=5 {APART}"
    )


def test_a_file_of_flags_is_left_alone():
    assert "XLA_FLAGS" not in variables({"XLA_FLAGS": "/home/alice/flags"})
