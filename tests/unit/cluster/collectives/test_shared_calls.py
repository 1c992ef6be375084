import pytest
from fakes.recorded import call, cell, host, rank

from jupyter_dist.cluster.collectives.shared_calls import see_ranks, share_calls


def share(*ranks, world_size=2, hosts=None):
    """Give the shared calls by (cell, group, counter, number)."""
    shared = share_calls(see_ranks(hosts or [host("a", *ranks)]), world_size)
    return {
        (key.cell_id, key.group, key.counter, key.sequence): found for key, found in shared.items()
    }


def world(number, cell_id="cell-1"):
    return cell_id, "", "collectives", number


def test_calls_with_one_number_belong_together():
    shared = share(
        rank(0, call("barrier", 1, 5, 9), call("barrier", 2, 10)), rank(1, call("barrier", 1, 7, 9))
    )
    assert set(shared[world(1)].calls) == {0, 1}
    assert shared[world(1)].missing == ()
    assert shared[world(2)].missing == (1,)


def test_numbers_begin_anew_in_another_cell():
    cells = (cell(1, 0, 10), cell(2, 20))
    calls = (call("barrier", 1, 5, 6), call("barrier", 1, 25, 26))
    shared = share(rank(0, *calls, cells=cells), rank(1, *calls[:1], cells=cells))
    assert shared[world(1)].missing == ()
    assert shared[world(1, "cell-2")].missing == (1,)


def test_objects_and_groups_have_numbers_of_their_own():
    own = [call("barrier", 1, 1, 2), call("all_gather_object", 1, 3, 4)]
    own.append(call("barrier", 1, 5, 6, group="0"))
    shared = share(rank(0, *own), rank(1))
    others = {("cell-1", "", "objects", 1), ("cell-1", "0", "collectives", 1)}
    assert set(shared) == {world(1), *others}


@pytest.mark.parametrize(("number", "missing", "unknown"), [(7, (), (1,)), (9, (1,), ())])
@pytest.mark.parametrize("forgotten", ["omitted", "left_out"])
def test_of_a_rank_that_has_forgotten_calls_only_newer_ones_are_missing(
    number, missing, unknown, forgotten
):
    cut = rank(1, call("barrier", 8, 5), **{forgotten: 7})
    found = share(rank(0, call("barrier", number, 10)), cut)[world(number)]
    assert (found.missing, found.unknown) == (missing, unknown)


def test_without_numbers_to_compare_times_of_day_tell_what_was_forgotten():
    old, new = (call("barrier", 1, when, group="0-1") for when in (5, 90))
    cut = rank(1, call("barrier", 9, 50), omitted=3)
    for record, expected in ((old, ((), (1,))), (new, ((1,), ()))):
        found = share(rank(0, record), cut)["cell-1", "0-1", "collectives", 1]
        assert (found.missing, found.unknown) == expected


def test_a_call_outside_all_cells_belongs_to_none():
    cells = (cell(3, 10, 20), cell(4, 30, 40))
    calls = [call("barrier", number, 5 + 10 * number, 99) for number in range(4)]
    shared = share(rank(0, *calls, cells=cells), world_size=1)
    cells_in_order = [key[0] for key in sorted(shared, key=lambda key: key[3])]
    assert cells_in_order == ["", "cell-3", "", "cell-4"]
