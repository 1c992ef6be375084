import pytest

from jupyter_dist.cluster.debugging.stops import find_stops
from jupyter_dist.errors import UsageError
from jupyter_dist.magics import options as accepted
from jupyter_dist.protocol.messages import Stops

CELL = "#%%spmd\nx = 1\ny = 2\n"


def find(line, ranks=range(4), usual=None):
    return find_stops(accepted.SPMD.read(line), CELL, ranks, usual)


def test_without_options_it_is_what_holds_for_all_cells():
    usual = Stops(on_error=True)
    assert find("") is None
    assert find("", usual=usual) is usual
    assert find("--break 3", usual=usual) == Stops(line=3, on_error=True)


def test_a_line_a_condition_and_ranks_can_be_given_together():
    stops = find("--break 2 --break-if 'x > 1' --break-rank 0,2-3 --background")
    assert stops == Stops(line=2, condition="x > 1", ranks=(0, 2, 3))


@pytest.mark.parametrize(
    "line",
    [
        "--break 4",
        "--break 0",
        "--break x",
        "--break-if 'x ='",
        "--break-rank 0",
        "--break 2 --break-rank 7",
    ],
)
def test_what_cannot_be_is_refused_with_what_was_given(line):
    with pytest.raises(UsageError, match=r"--break"):
        find(line)


def test_ranks_that_do_not_run_the_cell_cannot_stop():
    with pytest.raises(UsageError, match="rank 3"):
        find("--break 2 --break-rank 3", ranks=(0, 1))
