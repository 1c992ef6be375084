"""The list of what ranks run is that of today, but for little."""

import sys

import pytest

from jupyter_dist.engine.shared_pages import read_run_by_ranks

from .run_by_ranks import find_run_by_ranks

MOST_NEW = MOST_GONE = 0.1
"""Of our own functions, that may be missing in the list, or stand in it for nothing."""


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="others run other functions")
def test_what_a_rank_runs_is_known_to_its_zygote():
    functions, _ = find_run_by_ranks()
    run = {each for each in functions if each.startswith("jupyter_dist.")}
    listed = {
        f"{module}:{name}"
        for module, names in read_run_by_ranks().functions.items()
        for name in names
        if module.startswith("jupyter_dist.")
    }
    renew = "python tests/costs/run_by_ranks.py writes the list"
    assert len(run - listed) <= MOST_NEW * len(run), renew
    assert len(listed - run) <= MOST_GONE * len(listed), renew
