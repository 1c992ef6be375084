import msgspec
import pytest

from jupyter_dist.model.ranks.initialized import Formed, FrameworkPlan, plan_frameworks

JAX = Formed("jax", 2, 3, calls=5, settings="{}")


def plan(*ranks, world_size=3):
    """Plan for ranks that bring these."""
    plans = plan_frameworks(dict(enumerate(ranks)), world_size)
    assert len({plan.name for plan in plans}) == len(plans)
    return plans


def test_what_nobody_has_formed_needs_no_plan():
    assert plan((), (), ()) == ()


def test_ranks_in_step_keep_what_they_have():
    assert plan((JAX,), (JAX,), (JAX,)) == (FrameworkPlan("jax", True, "", "{}"),)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"calls": 4}, "rank 1 began 4 collectives, others 5"),
        ({"calls": 6}, "ranks 0,2 began 5 collectives, others 6"),
        ({"is_broken": True}, "a collective was broken off on rank 1"),
        ({"generation": 1}, "ranks have formed it at different times"),
        ({"world_size": 4}, "there were 4 ranks"),
    ],
)
def test_one_rank_out_of_step_has_all_form_it_anew(changes, reason):
    other = msgspec.structs.replace(JAX, **changes)
    assert plan((JAX,), (other,), (JAX,)) == (FrameworkPlan("jax", False, reason, "{}"),)


def test_a_new_rank_has_all_form_it_anew_as_the_others_did():
    (found,) = plan((), (JAX,), (JAX,))
    assert (found.name, found.is_kept, found.settings) == ("jax", False, "{}")
    assert found.reason.startswith("rank 0 ")


def test_each_framework_has_a_plan_of_its_own():
    torch = Formed("torch", 2, 3, is_broken=True)
    plans = plan((JAX, torch), (JAX, torch), (JAX, torch))
    assert [(each.name, each.is_kept) for each in plans] == [("jax", True), ("torch", False)]


def test_a_smaller_cluster_forms_anew():
    assert plan((JAX,), (JAX,), world_size=2)[0].reason == "there were 3 ranks"


def test_what_is_always_formed_is_formed_in_the_beginning():
    formed = dict.fromkeys(range(2), ())
    (found,) = plan_frameworks(formed, 2, ("jax",))
    assert (found.name, found.is_kept, found.settings) == ("jax", False, "")
