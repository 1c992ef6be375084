import errno
import os

import pytest

from jupyter_dist.checkpoint.storage.locks import holding, is_held, make_held, release
from jupyter_dist.errors import CheckpointFailed


def test_a_lock_is_held_until_it_is_released(tmp_path):
    path = tmp_path / "lock"
    file = make_held(path)
    assert is_held(path)
    release(file)
    assert not is_held(path)
    assert path.exists()


def test_a_lock_is_released_for_those_who_have_inherited_it_too(tmp_path):
    file = make_held(tmp_path / "lock")
    inherited = os.dup(file.number)
    release(file)
    assert not is_held(tmp_path / "lock")
    os.close(inherited)


def test_a_lock_that_is_not_there_is_nobodys(tmp_path):
    assert not is_held(tmp_path / "lock")


def test_two_do_not_hold_a_directory_at_once(tmp_path):
    refused = pytest.raises(CheckpointFailed, match=rf"{tmp_path}: .* 0\.05 s")
    with holding(tmp_path), refused, holding(tmp_path, 0.05):
        pytest.fail("both hold it")
    with holding(tmp_path):
        pass


def test_a_directory_is_let_go_after_an_error(tmp_path):
    with pytest.raises(KeyError), holding(tmp_path):
        raise KeyError
    with holding(tmp_path, 0.05):
        pass


def test_a_directory_that_is_gone_is_told(tmp_path):
    with (
        pytest.raises(CheckpointFailed, match=os.strerror(errno.ENOENT)),
        holding(tmp_path / "gone"),
    ):
        pytest.fail("there is nothing to hold")
