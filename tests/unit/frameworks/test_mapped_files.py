"""Mapped files are found also where a path is not UTF-8."""

import mmap
import os

import pytest

from jupyter_dist.engine import zygote
from jupyter_dist.frameworks import gloo_sends
from jupyter_dist.frameworks.mpi import framework as mpi

LIBRARY = "libours.so"


@pytest.fixture(autouse=True)
def mapped(tmp_path):
    """Map a library into memory from a folder whose name is not UTF-8; return its path."""
    path = os.path.join(os.fsencode(tmp_path), b"\xff\x8c", LIBRARY.encode())
    os.mkdir(os.path.dirname(path))
    with open(path, "w+b") as file:
        file.truncate(1)
        with mmap.mmap(file.fileno(), 1):
            yield os.fsdecode(path)


def test_the_zygote_finds_it():
    assert zygote._is_mapped(LIBRARY)


def test_its_symbols_are_asked_for(mapped, monkeypatch):
    asked = []
    monkeypatch.setattr(gloo_sends, "find_symbols", lambda path, _: asked.append(path))
    assert gloo_sends._find_loaded(LIBRARY) is None
    assert asked == [mapped]


def test_segments_of_mpi_are_unlinked(mapped, monkeypatch):
    monkeypatch.setattr(mpi, "_SEGMENTS", mpi.re.compile(rf"\S*{LIBRARY}"))
    mpi._unlink_segments()
    assert not os.path.exists(mapped)
