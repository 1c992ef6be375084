"""The stand-in is as strict as it should be: else its silence would mean nothing."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SUCCESS, INVALID_USAGE = 0, 5
BARE = Path(__file__).parent / "bare.py"


@pytest.fixture
def bare(surroundings, tmp_path):
    """Call nccl4py in a process of its own; gives what came of it, and what was found misused."""

    def run(name):
        log = tmp_path / name
        environment = {**os.environ, **surroundings, "NCCL_STAND_IN_LOG": str(log)}
        done = subprocess.run(
            [sys.executable, str(BARE), name],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        )
        return ast.literal_eval(done.stdout), log.read_text() if log.exists() else ""

    return run


@pytest.mark.parametrize(
    "name",
    [
        "launch_while_forming",
        "launch_while_in_progress",
        "unknown_type",
        "unknown_op",
        "no_buffer",
        "use_after_abort",
        "second_abort",
        "destroy_before_its_time",
        "wrong_config",
        "two_threads",
    ],
)
def test_misuse_is_refused_and_written_down(bare, name):
    status, misuse = bare(name)
    assert status == INVALID_USAGE
    assert len(misuse.splitlines()) == 1


def test_calls_are_in_progress_until_they_are_asked_for(bare):
    assert bare("in_progress") == ((True, SUCCESS, True, SUCCESS, [5.0] * 3), "")


def test_a_healthy_communicator_is_finalized_and_destroyed(bare):
    assert bare("ends") == ((True, SUCCESS, SUCCESS), "")


def test_other_threads_go_on_while_nccl4py_is_in_a_slow_call(bare):
    turns, misuse = bare("gil")
    assert turns >= 5
    assert misuse == ""
