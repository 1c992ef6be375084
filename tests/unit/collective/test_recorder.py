import errno
import os
import struct
import time

import pytest

from jupyter_dist.collective import recorder as recorder_module
from jupyter_dist.collective.call import Call
from jupyter_dist.collective.recorder import CollectiveRecorder, read_last

CALL = Call("all_reduce", 17, "<f4", "4", "sum")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rank0.calls"


@pytest.fixture
def recorder(path):
    found = CollectiveRecorder(path)
    yield found
    found.close()


def test_a_call_in_progress_is_seen_with_its_age(recorder, path):
    recorder.begin(CALL)
    view = read_last(path, time.monotonic_ns() + 5 * 10**9)
    assert view is not None
    assert (view.sequence, view.operation, view.is_running) == (17, "all_reduce", True)
    assert 5.0 <= view.seconds < 10.0


def test_an_ended_call_is_seen_with_its_duration(recorder, path):
    recorder.end(recorder.begin(CALL))
    view = read_last(path, time.monotonic_ns() + 5 * 10**9)
    assert view is not None
    assert not view.is_running
    assert view.seconds < 1.0


def test_the_last_of_many_calls_is_seen(recorder, path):
    for sequence in range(1, 201):
        recorder.end(recorder.begin(Call("barrier", sequence)))
    view = read_last(path, time.monotonic_ns())
    assert view is not None
    assert (view.sequence, view.operation) == (200, "barrier")


def test_the_site_is_the_line_of_the_cell(recorder, path):
    code = "\n\ndef inner():\n    return recorder.begin(call)\ninner()\n"
    exec(compile(code, "In[3]", "exec"), {"recorder": recorder, "call": CALL})
    view = read_last(path, time.monotonic_ns())
    assert view is not None
    assert view.site == "In[3]:4"


def test_outside_a_cell_the_site_is_the_first_line_outside_the_package(recorder, path):
    recorder.begin(CALL)
    view = read_last(path, time.monotonic_ns())
    assert view is not None
    assert view.site.startswith("test_recorder.py:")


def test_the_site_can_be_found_in_another_way(recorder, path):
    recorder.locate = lambda: "In[9]:" + "1" * 100
    recorder.begin(CALL)
    view = read_last(path, time.monotonic_ns())
    assert view is not None
    assert view.site == "In[9]:" + "1" * 42


def test_a_record_left_half_written_is_passed_over(recorder, path):
    recorder.begin(Call("barrier", 1))
    recorder.begin(Call("barrier", 2))
    with open(path, "r+b") as file:
        file.seek(64 + 192)
        file.write(struct.pack("=Q", 3))
    view = read_last(path, time.monotonic_ns())
    assert view is not None
    assert view.sequence == 1


def test_nothing_is_seen_before_the_first_call(recorder, path):
    assert read_last(path, 0) is None


def test_nothing_is_seen_in_other_files(tmp_path):
    assert read_last(tmp_path / "missing", 0) is None
    (tmp_path / "other").write_bytes(b"x" * 100)
    assert read_last(tmp_path / "other", 0) is None


def test_on_a_full_disk_recording_goes_on_in_memory(path, monkeypatch):
    def refuse(fd, offset, length):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(recorder_module.os, "posix_fallocate", refuse)
    recorder = CollectiveRecorder(path)
    recorder.end(recorder.begin(CALL))
    recorder.close()
    assert not recorder.is_shared
    assert read_last(path, 0) is None


def test_without_a_folder_recording_goes_on_in_memory(tmp_path):
    recorder = CollectiveRecorder(tmp_path / "missing" / "calls")
    recorder.end(recorder.begin(CALL))
    assert not recorder.is_shared
    recorder.close()


def test_the_file_is_for_its_owner_only(recorder, path):
    assert path.stat().st_mode & 0o777 == 0o600
