import json
import os

import pytest
from fakes.recorded import call, cell, host, rank

from jupyter_dist.cluster.collectives import timeline_file
from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog
from jupyter_dist.cluster.collectives.timeline_file import find_target, write_timeline
from jupyter_dist.errors import UsageError

LOG = CollectiveLog(
    (host("a", rank(0, call("barrier", 1, 5, 6), omitted=7), rank(1, problem="no file")),),
    {"b": "gone"},
    3,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.json"


def write(path, log=LOG, *, is_forced=False):
    return write_timeline(log, "demo", path, find_target(path, is_forced=is_forced))


def test_the_file_is_a_trace(path):
    write(path)
    trace = json.loads(path.read_text())
    assert trace["otherData"]["cluster"] == "demo"
    assert {event["ph"] for event in trace["traceEvents"]} == {"M", "X"}
    slices = [event["name"] for event in trace["traceEvents"] if event["ph"] == "X"]
    assert slices == ["In[1]", "barrier"]


def test_without_any_rank_it_is_a_trace_too(path):
    write(path, CollectiveLog((), {}, 0))
    assert json.loads(path.read_text())["traceEvents"] == []


def test_what_was_written_and_what_is_lacking_is_told(path):
    wrote, forgotten, *lacking = str(write(path)).splitlines()
    assert wrote.startswith(f"wrote 1 cell and 1 call of 1 rank to {path};")
    assert " 7 " in forgotten
    assert [line.split(": ")[1] for line in lacking] == ["host b (gone)", "rank 1 (no file)"]


def test_a_whole_record_needs_no_second_line(path):
    calls = [call("barrier", number, number, number + 0.5) for number in (1, 2)]
    cells = [cell(1, 0, 1.7), cell(2, 1.8)]
    log = CollectiveLog((host("a", *(rank(each, *calls, cells=cells) for each in (0, 1))),), {}, 2)
    (line,) = str(write(path, log)).splitlines()
    assert line.startswith(f"wrote 2 cells and 4 calls of 2 ranks to {path};")


def test_a_timeline_of_ours_is_overwritten(path):
    write(path, CollectiveLog((), {}, 0))
    write(path)
    assert len(json.loads(path.read_text())["traceEvents"]) > 2


@pytest.mark.parametrize("content", [b"", b"{}", b'{"otherData":{"made by":"someone"}}'])
def test_another_file_is_overwritten_only_by_force(path, content):
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"trace\.json .*--force"):
        write(path)
    assert path.read_bytes() == content
    write(path, is_forced=True)
    assert json.loads(path.read_text())["traceEvents"]


@pytest.mark.parametrize(
    ("given", "said"),
    [("", "trace.json"), ("./", "'./'"), ("nope/trace.json", "/nope"), ("pipe", "^pipe ")],
)
def test_what_is_no_file_is_left_alone_even_by_force(tmp_path, monkeypatch, given, said):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(UsageError, match=said):
        find_target(given, is_forced=True)
    assert [path.name for path in tmp_path.iterdir() if path.is_fifo()] == ["pipe"]


def test_a_link_goes_on_leading_to_the_file(path, tmp_path):
    write(path)
    (tmp_path / "link.json").symlink_to(path)
    write(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()


def test_a_home_directory_may_be_written_as_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_target("~/trace.json", is_forced=False) == tmp_path / "trace.json"


def test_a_full_disk_leaves_the_old_file_and_nothing_else(path, monkeypatch, tmp_path):
    write(path)
    before = path.read_bytes()

    def refuse(timeline):
        yield b"half"
        raise OSError(28, "full")

    monkeypatch.setattr(timeline_file, "trace_pieces", refuse)
    with pytest.raises(UsageError, match=r"trace\.json .*: full"):
        write(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
