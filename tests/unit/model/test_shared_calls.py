from fakes.recorded import call, cell, host, rank

from jupyter_dist.model.shared_calls import see_ranks, share_calls


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
    own = (call("barrier", 1, 1, 2), call("all_gather_object", 1, 3, 4), call("barrier", 1, 5, 6))
    own = (*own[:2], call("barrier", 1, 5, 6, group="0"))
    shared = share(rank(0, *own), rank(1))
    assert set(shared) == {
        world(1),
        ("cell-1", "", "objects", 1),
        ("cell-1", "0", "collectives", 1),
    }


def test_only_members_of_a_group_can_be_missing():
    shared = share(rank(0, call("barrier", 1, 1, group="0,2")), rank(1), rank(2), world_size=3)
    assert shared["cell-1", "0,2", "collectives", 1].missing == (2,)


def test_messages_belong_to_single_ranks():
    assert share(rank(0, call("send", 1, 1, 2, root=1)), rank(1, call("recv", 1, 1, 2))) == {}


def test_of_what_a_recorder_has_forgotten_nothing_is_said():
    ahead = rank(0, call("barrier", 7, 10, 11), call("barrier", 8, 20))
    behind = rank(1, call("barrier", 8, 21), omitted=7)
    shared = share(ahead, behind)
    assert (shared[world(7)].missing, shared[world(7)].unknown) == ((), (1,))
    assert shared[world(8)].missing == ()


def test_what_was_not_asked_for_counts_as_unknown_too():
    shared = share(rank(0, call("barrier", 7, 10)), rank(1, call("barrier", 9, 20), left_out=8))
    assert shared[world(7)].unknown == (1,)


def test_a_rank_that_is_behind_is_missing_however_much_it_has_forgotten():
    shared = share(rank(0, call("barrier", 9, 10)), rank(1, call("barrier", 8, 5), omitted=7))
    assert shared[world(9)].missing == (1,)


def test_without_numbers_to_compare_times_of_day_tell_what_was_forgotten():
    old, new = (call("barrier", 1, when, group="0-1") for when in (5, 90))
    cut = rank(1, call("barrier", 9, 50), omitted=3)
    for record, expected in ((old, ((), (1,))), (new, ((1,), ()))):
        found = share(rank(0, record), cut)["cell-1", "0-1", "collectives", 1]
        assert (found.missing, found.unknown) == expected


def test_of_ranks_that_could_not_be_read_nothing_is_said():
    shared = share(rank(0, call("barrier", 1, 5)), rank(1, problem="no file"), world_size=3)
    assert (shared[world(1)].missing, shared[world(1)].unknown) == ((), (1, 2))


def test_a_call_outside_all_cells_belongs_to_none():
    cells = (cell(3, 10, 20), cell(4, 30, 40))
    calls = [call("barrier", number, 5 + 10 * number, 99) for number in range(4)]
    shared = share(rank(0, *calls, cells=cells), world_size=1)
    assert [key[0] for key in sorted(shared, key=lambda key: key[3])] == [
        "",
        "cell-3",
        "",
        "cell-4",
    ]
