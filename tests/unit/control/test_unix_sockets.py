"""Folders in which a Unix socket stands for keys: one's own, and closed to all others."""

import os
import stat

import pytest

from jupyter_dist.control.unix_sockets import can_dial, check_folder


@pytest.fixture
def folder(tmp_path):
    """One that no other user may enter, with something in it."""
    folder = tmp_path / "own"
    folder.mkdir(mode=0o700)
    os.mknod(folder / "socket", stat.S_IFSOCK | 0o600)
    (folder / "file").touch()
    return folder


def test_a_socket_in_a_folder_of_ones_own_can_be_dialled(folder):
    check_folder(f"{folder}/socket")
    assert can_dial(f"{folder}/socket")
    assert not can_dial(f"{folder}/file")
    assert not can_dial(f"{folder}/none")


def test_a_link_to_such_a_folder_is_none(folder):
    link = folder.with_name("link")
    link.symlink_to(folder)
    assert not can_dial(f"{link}/socket")


def test_a_folder_of_another_user_is_none(folder, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(PermissionError):
        check_folder(f"{folder}/socket")
    assert not can_dial(f"{folder}/socket")
