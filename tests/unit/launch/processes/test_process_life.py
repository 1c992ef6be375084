import os

import pytest

from jupyter_dist.launch.processes.process_life import process_lives


def test_this_process_lives():
    assert process_lives(os.getpid())


@pytest.mark.parametrize(
    "pid",
    [
        0,
        -1,
        pytest.param(-os.getpid(), id="own, below zero"),
        1 << 31,
        (1 << 31) - 1,
        1 << 64,
        10**30,
    ],
)
def test_a_number_that_no_process_has_is_not_alive(pid):
    assert not process_lives(pid)
