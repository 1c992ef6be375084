"""What follows from what all ranks bring along, and what is refused before JAX hears of it."""

import msgspec
import pytest

from jupyter_dist.errors import FrameworkError, UsageError
from jupyter_dist.frameworks.jax.forming.agreement import Facts, find_agreement, recall
from jupyter_dist.frameworks.jax.forming.arguments import InitializeRequest
from jupyter_dist.model.hosts.addresses import split_address


def facts(count=3, **changes):
    """Facts of so many ranks that agree; each change is a function of the rank, for the wish."""
    found = {}
    for rank in range(count):
        own = {name: change(rank) for name, change in changes.items()}
        wish = InitializeRequest(**{"process_id": rank, "num_processes": count, **own})
        found[rank] = Facts(wish, "jax 1 and jaxlib 1", f"10.0.0.{rank + 1}")
    return found


def changed(found, rank, **changes):
    return {**found, rank: msgspec.structs.replace(found[rank], **changes)}


def test_ranks_that_give_nothing_take_a_free_port_of_the_first_host():
    agreement = find_agreement(facts())
    assert agreement.rank_of_process == (0, 1, 2)
    assert (agreement.coordinator_address, agreement.at_rank, agreement.bind) == ("", 0, "")
    assert not agreement.is_standing


def test_a_permutation_of_processes_is_kept_for_those_who_join_later():
    agreement = find_agreement(facts(process_id=lambda rank: (rank + 1) % 3))
    assert agreement.rank_of_process == (2, 0, 1)
    assert agreement.settings.process_ids == (1, 2, 0)


def test_an_explicit_address_is_served_on_the_host_of_process_0():
    agreement = find_agreement(
        facts(process_id=lambda rank: (rank + 1) % 3, coordinator_address=lambda _: "10.0.0.3:7000")
    )
    assert agreement.coordinator_address == agreement.bind == "10.0.0.3:7000"
    assert agreement.at_rank == 2


@pytest.mark.parametrize(
    ("wish", "address", "bind"),
    [
        ({"bind_address": "0.0.0.0:7"}, "10.0.0.1:7", "0.0.0.0:7"),
        ({"bind_address": "[::]:7"}, "10.0.0.1:7", "[::]:7"),
        ({"bind_address": "10.9.9.9:7"}, "10.9.9.9:7", "10.9.9.9:7"),
        ({"bind_address": "10.9.9.9:0"}, "", "10.9.9.9:0"),
        ({"bind_address": "[::]:7", "coordinator_address": "a:7"}, "a:7", "[::]:7"),
        ({"port": "8476"}, "", "10.0.0.1:8476"),
    ],
)
def test_addresses_follow_from_what_is_given(wish, address, bind):
    given = {name: (lambda _, value=value: value) for name, value in wish.items()}
    agreement = find_agreement(facts(**given))
    assert (agreement.coordinator_address, agreement.bind) == (address, bind)


def test_each_mesh_of_a_generation_has_a_service_of_its_own():
    binds = [find_agreement(changed(facts(), 1, services=used_up)).bind for used_up in (0, 1, 2, 3)]
    assert len(set(binds)) == 4
    assert {int(bind.rpartition(":")[2] or 0) for bind in binds} == {0}


@pytest.mark.parametrize("name", ["coordinator_address", "bind_address", "port"])
def test_a_port_of_the_user_is_written_in_another_way_for_each_mesh(name):
    wish = {name: lambda _: "7000" if name == "port" else "10.0.0.1:7000"}
    binds = [
        find_agreement(changed(facts(**wish), 1, services=used_up)).bind for used_up in (0, 1, 2)
    ]
    assert len(set(binds)) == 3
    assert {split_address(bind) for bind in binds} == {("10.0.0.1", 7000)}


def test_what_stands_on_all_ranks_stays_and_on_some_does_not():
    standing = {rank: msgspec.structs.replace(one, has_this=True) for rank, one in facts().items()}
    assert find_agreement(standing).is_standing
    assert not find_agreement(changed(standing, 1, has_this=False)).is_standing


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_processes": lambda rank: 3 + (rank == 1)}, "3 on ranks 0,2, 4 on rank 1"),
        ({"num_processes": lambda _: 4}, "num_processes is 4, and this cluster has 3 ranks"),
        ({"process_id": lambda _: 0}, "process_id is 0 on ranks 0-2"),
        ({"process_id": lambda rank: rank + 1}, "process_id is 3 on rank 2"),
        ({"process_id": lambda rank: -rank}, "process_id is -1 on rank 1, -2 on rank 2"),
        ({"coordinator_address": lambda rank: f"a:{rank}"}, "a:0 on rank 0, a:1 on rank 1"),
        ({"bind_address": lambda rank: f"a:{rank}"}, "the bind address is not the same"),
        ({"partition_index": lambda rank: rank or None}, "none on rank 0, given on ranks 1-2"),
    ],
)
def test_wishes_that_do_not_fit_together_are_usage_errors(changes, words):
    with pytest.raises(UsageError) as caught:
        find_agreement(facts(**changes))
    assert words in str(caught.value)


def test_versions_that_differ_are_named():
    with pytest.raises(FrameworkError, match="jax 2 on rank 1"):
        find_agreement(changed(facts(), 1, versions="jax 2"))


def test_a_problem_of_one_rank_is_raised_on_all():
    with pytest.raises(FrameworkError, match=r"^Rank 1: no JAX\.$"):
        find_agreement(changed(facts(), 1, wish=None, problem="no JAX."))
    with pytest.raises(UsageError, match=r"^Rank 1: wrong\.$"):
        find_agreement(changed(facts(), 1, wish=None, problem="wrong.", is_usage=True))


def test_equal_problems_are_told_once():
    found = facts()
    for rank in (0, 2):
        found = changed(found, rank, wish=None, problem="no JAX.")
    with pytest.raises(FrameworkError, match=r"^Ranks 0,2: no JAX\.$"):
        find_agreement(found)


def test_who_joins_later_is_what_its_rank_was_and_other_numbers_begin_anew():
    found = facts(
        process_id=lambda rank: (rank + 1) % 3,
        local_device_ids=lambda rank: (rank,),
        timeout_s=lambda _: 20.0,
    )
    settings = find_agreement(found).settings
    assert recall(settings, 1, 3) == {
        "initialization_timeout": 20.0,
        "process_id": 2,
        "local_device_ids": (1,),
        "partition_index": None,
    }
    assert recall(settings, 1, 2) == {"initialization_timeout": 20.0}
