from jupyter_dist.coordinator.cells.setup_cells import SetupCells
from jupyter_dist.protocol.messages import SubmitCell

WELL = {0: "ok", 1: "ok"}


def setup(code, ranks=None, timeout_s=None):
    return SubmitCell("r1", code, ranks, timeout_s, is_setup=True)


def codes(cells):
    return [cell.code for cell in cells]


def test_cells_come_back_in_their_order_without_their_time_limit():
    cells = SetupCells()
    cells.remember(setup("import a", timeout_s=3.0), WELL)
    cells.remember(setup("b = 1"), WELL)
    first, second = cells.for_ranks((1,))
    assert (first.code, first.ranks, first.timeout_s) == ("import a", (1,), None)
    assert second.code == "b = 1"


def test_only_marked_cells_that_ended_well_everywhere_are_kept():
    cells = SetupCells()
    cells.remember(SubmitCell("r1", "x = 1"), WELL)
    cells.remember(setup("y = 1 / 0"), {0: "ok", 1: "raised"})
    assert cells.for_ranks((0,)) == []


def test_a_cell_that_ran_again_counts_once_and_at_its_last_place():
    cells = SetupCells()
    for code in ("a", "b", "a"):
        cells.remember(setup(code), WELL)
    assert codes(cells.for_ranks((0,))) == ["b", "a"]


def test_a_cell_for_some_ranks_is_run_by_those_only():
    cells = SetupCells()
    cells.remember(setup("a", ranks=(0, 1)), WELL)
    assert cells.for_ranks((2,)) == []
    (found,) = cells.for_ranks((1, 2))
    assert found.ranks == (1,)


def test_cells_follow_ranks_to_their_new_numbers():
    cells = SetupCells()
    cells.remember(setup("all"), WELL)
    cells.remember(setup("kept", ranks=(1, 3)), WELL)
    cells.remember(setup("gone", ranks=(1,)), WELL)
    cells.renumber({0: 0, 2: 1, 3: 2})
    assert codes(cells.for_ranks((2,))) == ["all", "kept"]
    assert codes(cells.for_ranks((0, 1, 2))) == ["all", "kept"]
