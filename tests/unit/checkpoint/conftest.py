"""Disks that are small or read-only, for tests that root runs, and files that are closed."""

import contextlib
import ctypes
import os

import pytest

MS_RDONLY, MS_REMOUNT, MNT_DETACH = 1, 32, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def mount(path, flags=0):
    done = LIBC.mount(b"tmpfs", os.fsencode(path), b"tmpfs", flags, b"size=1m,nr_inodes=64")
    if done != 0:
        pytest.skip(f"a small disk cannot be mounted here: {os.strerror(ctypes.get_errno())}")


@pytest.fixture
def small_disk(tmp_path):
    """A directory with room for 1 MiB."""
    path = tmp_path / "disk"
    path.mkdir()
    mount(path)
    with contextlib.ExitStack() as after:
        after.callback(LIBC.umount2, os.fsencode(path), MNT_DETACH)
        yield path


@pytest.fixture
def read_only_disk(small_disk):
    """A directory in which nothing can be made; `small_disk` is the same one."""
    (small_disk / "here").mkdir()
    mount(small_disk, MS_REMOUNT | MS_RDONLY)
    return small_disk


@pytest.fixture(autouse=True)
def no_file_stays_open(tmp_path_factory):
    """Whatever went wrong in a test, no file of it is open in the end."""
    yield
    files = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    assert [file for file in files if file.startswith(str(tmp_path_factory.getbasetemp()))] == []
