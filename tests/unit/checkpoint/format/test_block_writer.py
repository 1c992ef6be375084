"""Blocks that go past the page cache, and what cannot."""

import errno
import fcntl
import itertools
import os
import threading

import numpy as np
import pytest

from jupyter_dist.checkpoint.format.block_writer import (
    BLOCK_BYTES,
    LEAST_BYTES,
    ROOM_BYTES,
    BlockWriter,
)

RANDOM = np.random.default_rng(7)
DATA = RANDOM.integers(0, 256, 2 * ROOM_BYTES + 3 * BLOCK_BYTES + 11, np.uint8).data


@pytest.fixture
def file(tmp_path):
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield fd
    os.close(fd)


@pytest.fixture
def writer(file):
    made = BlockWriter(file)
    yield made
    made.close()


def is_direct(fd):
    return bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT)


def contents(fd):
    return os.pread(fd, 1 << 30, 0)


class Spy:
    """Stands between a writer and the system: counts what comes, and does less than it is asked."""

    def __init__(self, monkeypatch, act=lambda _, data: len(data)):
        self.cached = self.direct = 0
        real = os.pwrite

        def pwrite(fd, data, offset):
            direct = is_direct(fd)
            count = real_write(fd, data[: act(direct, data)], offset)
            self.direct += direct * count
            self.cached += (not direct) * count
            return count

        def real_write(fd, data, offset):
            """Write as the cache does: parts of blocks are what is asked for here."""
            flags = fcntl.fcntl(fd, fcntl.F_GETFL)
            fcntl.fcntl(fd, fcntl.F_SETFL, flags & ~os.O_DIRECT)
            try:
                return real(fd, data, offset)
            finally:
                fcntl.fcntl(fd, fcntl.F_SETFL, flags)

        monkeypatch.setattr(os, "pwrite", pwrite)


@pytest.mark.parametrize("offset", [0, 1, BLOCK_BYTES, 5 * BLOCK_BYTES - 3])
@pytest.mark.parametrize(
    "nbytes",
    [0, 1, BLOCK_BYTES, LEAST_BYTES, LEAST_BYTES + 2 * BLOCK_BYTES, ROOM_BYTES + 1, len(DATA)],
)
def test_every_byte_comes_where_it_belongs(file, writer, offset, nbytes):
    os.pwrite(file, b"before" * 10_000, 0)
    before = contents(file)[:offset]
    writer.write(DATA[:nbytes], offset)
    writer.flush()
    assert contents(file)[: offset + nbytes] == before.ljust(offset, b"\0") + DATA[:nbytes]
    assert not is_direct(file)


def test_runs_side_by_side_leave_each_other_whole(file, writer):
    cuts = sorted({0, len(DATA), *(int(cut) for cut in RANDOM.integers(0, len(DATA), 9))})
    runs = list(itertools.pairwise(cuts))
    RANDOM.shuffle(runs)
    for start, stop in runs:
        writer.write(DATA[start:stop], start)
    writer.flush()
    assert contents(file) == DATA


def test_whole_blocks_go_past_the_cache_and_nothing_else(file, writer, monkeypatch):
    spy = Spy(monkeypatch)
    writer.write(DATA, 7)
    writer.flush()
    assert contents(file)[7:] == DATA
    assert spy.cached == (BLOCK_BYTES - 7) + (len(DATA) + 7) % BLOCK_BYTES
    assert spy.direct == len(DATA) - spy.cached


def test_a_file_system_without_such_a_way_gets_everything_through_the_cache(
    file, writer, monkeypatch
):
    def refuse(direct, data):
        if direct:
            raise OSError(errno.EINVAL, "Invalid argument")
        return len(data)

    spy = Spy(monkeypatch, refuse)
    writer.write(DATA, 0)
    writer.flush()
    assert not writer.is_direct
    assert contents(file) == DATA
    assert spy.cached == len(DATA)


@pytest.mark.parametrize("most", [BLOCK_BYTES, 3 * BLOCK_BYTES + 5, ROOM_BYTES - 1])
def test_a_disk_that_takes_less_at_a_time_gets_all_of_it(file, writer, monkeypatch, most):
    data = DATA[: LEAST_BYTES + 500 * most]  # each write goes to the disk
    Spy(monkeypatch, lambda _, data: min(len(data), most))
    writer.write(data, 100)
    writer.flush()
    assert contents(file)[100:] == data


def test_a_full_disk_is_told_and_the_file_is_as_it_was_opened(file, writer, monkeypatch):
    def full(direct, data):
        raise OSError(errno.ENOSPC, "")

    Spy(monkeypatch, full)
    writer.write(DATA[:LEAST_BYTES], 0)
    with pytest.raises(OSError, match=str(errno.ENOSPC)):
        writer.flush()
    assert writer.is_direct
    assert not is_direct(file)


def test_what_was_given_may_change_while_it_is_on_its_way(file, writer, monkeypatch):
    may_write, real = threading.Event(), os.pwrite

    def pwrite(fd, data, offset):
        assert may_write.wait(10)
        return real(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    data = bytearray(DATA[:LEAST_BYTES])
    writer.write(memoryview(data), 0)
    data[:] = bytes(len(data))
    may_write.set()
    writer.flush()
    assert contents(file) == DATA[:LEAST_BYTES]


def test_a_writer_that_is_given_up_leaves_no_descriptor(file):
    before = os.listdir("/proc/self/fd")
    writer = BlockWriter(file)
    writer.write(DATA, 0)
    writer.close()
    assert len(os.listdir("/proc/self/fd")) == len(before)
