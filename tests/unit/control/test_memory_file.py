import gc
import os
from pathlib import Path

import pytest

from jupyter_dist.control.memory_file import (
    MemoryFile,
    can_open,
    make_or_none,
    map_frames,
    map_frozen,
    write_to,
)

FRAMES = [b"a pickle", b"", bytes(range(256)) * 40]
SIZES = [len(frame) for frame in FRAMES]


@pytest.fixture
def file():
    with MemoryFile.make() as file:
        yield file


def files_of_this_process():
    return len(os.listdir("/proc/self/fd"))


def mapped(label):
    return label in Path("/proc/self/maps").read_text()


def test_what_is_written_can_be_opened_by_name_and_mapped(file):
    told = []
    file.write(FRAMES, told.append)
    file.freeze()
    assert told[-1] == sum(SIZES)
    assert file.used_bytes >= sum(SIZES)
    assert map_frozen(file.name, SIZES) == FRAMES


def test_who_writes_into_its_mapping_changes_nothing_for_others(file):
    file.write(FRAMES)
    file.freeze()
    one, two = map_frozen(file.name, SIZES), file.map(SIZES)
    one[2][0] = 99
    assert (two[2][0], map_frozen(file.name, SIZES)[2][0]) == (0, 0)


def test_what_is_frozen_cannot_be_changed_and_what_is_not_cannot_be_mapped(file):
    file.write(FRAMES)
    with pytest.raises(OSError, match="change"):
        file.map(SIZES)
    file.freeze()
    with pytest.raises(PermissionError):
        file.write_at(0, b"x")
    assert not write_to(file.name, FRAMES)
    assert file.map(SIZES) == FRAMES


def test_values_live_without_the_file_and_keep_none_open():
    before = files_of_this_process()
    file = MemoryFile.make()
    label = file.name.rpartition("/")[2]
    assert write_to(file.name, FRAMES)
    file.freeze()
    frame = file.map(SIZES)[2]
    file.close()
    file.close()
    assert (files_of_this_process(), bytes(frame)) == (before, FRAMES[2])
    assert mapped(label)
    del frame
    gc.collect()
    assert not mapped(label)


def test_a_file_that_is_dropped_is_closed():
    before = files_of_this_process()
    MemoryFile.make()
    assert files_of_this_process() == before


def test_a_name_leads_to_its_file_or_nowhere(file, tmp_path):
    pid, descriptor, label = file.name.split("/")
    assert can_open(file.name)
    other = (tmp_path / "other").open("wb")
    gone = MemoryFile.make()
    gone.close()
    for name in (
        f"{pid}/{other.fileno()}/{label}",
        f"{pid}/{descriptor}/{label[:-1]}",
        f"{2**22 + 1}/{descriptor}/{label}",
        gone.name,
        "",
        "../../etc/passwd",
        "a/b/c",
    ):
        assert not can_open(name), name
    other.close()


def test_what_is_too_short_is_not_mapped(file, tmp_path):
    file.write(FRAMES)
    file.freeze()
    with pytest.raises(OSError, match="bytes"):
        file.map([*SIZES[:2], SIZES[2] + 1])
    (tmp_path / "short").write_bytes(b"1234")
    with (tmp_path / "short").open("rb") as short:
        assert map_frames(short.fileno(), [4]) == [b"1234"]
        with pytest.raises(OSError, match="bytes"):
            map_frames(short.fileno(), [5])


def test_without_such_files_there_is_none(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    assert make_or_none() is None


def test_large_parts_are_read_whole(file):
    file.write_at(0, b"12345")
    assert (file.read_at(1, 3), file.read_at(3, 100), file.read_at(9, 1)) == (b"234", b"45", b"")
