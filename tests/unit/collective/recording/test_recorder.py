import contextlib
import errno
import os
import time
from pathlib import Path

import pytest

import jupyter_dist
from jupyter_dist.collective.calls.call import Call, Signature
from jupyter_dist.collective.recording import recorder as recorder_module
from jupyter_dist.collective.recording.recorder import CollectiveRecorder
from jupyter_dist.collective.recording.records_file import SITE_BYTES, read_last, read_records

SIGNATURE = Signature("all_reduce", "<f4", "3,4", "sum", nbytes=48, group="0,2~1")
CALL = Call(SIGNATURE, 17)
BARRIER = Signature("barrier")
OURS = str(Path(jupyter_dist.__file__).parent / "collective" / "host.py")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rank-0.collectives"


@pytest.fixture
def recorder(path):
    found = CollectiveRecorder(path)
    yield found
    found.close()


@pytest.fixture
def define(recorder):
    """Give the names that code defines which stands in a file of this name."""

    def run(code, file_name, **names):
        space = {"recorder": recorder, "call": CALL, **names}
        exec(compile(code, file_name, "exec"), space)
        return space

    return run


def sites(path):
    return [call.site for call in read_records(path, 0).calls]


# --- what is recorded ---


def test_a_call_comes_back_as_it_was(recorder, path):
    before_ns = time.monotonic_ns()
    recorder.end(recorder.begin(CALL))
    (call,) = read_records(path, 0).calls
    assert (call.operation, call.dtype, call.shape) == ("all_reduce", "float32", "3,4")
    assert (call.reduction, call.root, call.nbytes, call.group) == ("sum", -1, 48, "0,2~1")
    assert call.sequence == 17
    assert before_ns <= call.start_ns <= call.end_ns <= time.monotonic_ns()
    assert not call.has_failed


def test_a_call_of_objects_needs_no_array(recorder, path):
    recorder.end(recorder.begin(Call(Signature("broadcast_object", root=2), 3)))
    (call,) = read_records(path, 0).calls
    assert (call.operation, call.dtype, call.shape, call.root) == ("broadcast_object", "", "", 2)
    assert str(call) == "broadcast_object(root=2)"


def test_a_failure_is_told_apart_from_a_good_end(recorder, path):
    recorder.end(recorder.begin(CALL), is_ok=False)
    recorder.end(recorder.begin(CALL))
    first, second = read_records(path, 0).calls
    assert (first.has_failed, second.has_failed) == (True, False)
    assert first.start_ns <= first.end_ns <= second.start_ns


def test_an_end_can_have_been_some_time_ago(recorder, path):
    token = recorder.begin(CALL)
    recorder.end(token, end_ns=time.monotonic_ns() + 5)
    (call,) = read_records(path, 0).calls
    assert call.end_ns > call.start_ns
    recorder.end(token, False, 77)
    (call,) = read_records(path, 0).calls
    assert (call.end_ns, call.has_failed) == (77, True)


def test_calls_inside_one_another_have_their_own_ends(recorder, path):
    outer = recorder.begin(CALL)
    recorder.end(recorder.begin(Call(BARRIER, 1)))
    assert [bool(call.end_ns) for call in read_records(path, 0).calls] == [False, True]
    recorder.end(outer)
    first, second = read_records(path, 0).calls
    assert first.start_ns < second.start_ns < second.end_ns < first.end_ns


def test_the_end_of_a_call_that_was_forgotten_changes_no_other(recorder, path):
    long_ago = recorder.begin(CALL)
    for number in range(recorder_module.CALLS):
        recorder.begin(Call(BARRIER, number))
    recorder.end(long_ago)
    assert not any(call.end_ns for call in read_records(path, 0).calls)


def test_cells_are_recorded_with_the_coordinators_name_for_them(recorder, path):
    recorder.begin_cell("In[3]", "cell-17")
    recorder.end_cell()
    recorder.begin_cell("In[4]", "cell-18")
    done, running = read_records(path, 0).cells
    assert (done.label, done.cell_id) == ("In[3]", "cell-17")
    assert 0 < done.start_ns <= done.end_ns <= running.start_ns
    assert (running.label, running.end_ns) == ("In[4]", 0)


def test_an_end_without_a_cell_is_harmless(recorder, path):
    recorder.end_cell()
    recorder.begin_cell("In[3]")
    recorder.end_cell()
    (cell,) = read_records(path, 0).cells
    recorder.end_cell()
    assert read_records(path, 0).cells == (cell,)


def test_texts_that_are_too_long_lose_what_can_be_spared(recorder, path, define):
    group = ",".join(map(str, range(0, 400, 2)))
    signature = Signature("o" * 99, "bfloat16", "9," * 31 + "9", "prod", group=group + "~12")
    code = "recorder.end(recorder.begin(call))"
    define(code, "/x/" + "ü" * 99 + ".py", call=Call(signature, 1))
    (call,) = read_records(path, 0).calls
    assert call.operation == "o" * 10 + "…" + "o" * 10
    assert (call.dtype, call.shape, call.reduction) == ("bfloat16", "9," * 31 + "9", "prod")
    assert call.site.startswith("…ü")
    assert call.site.endswith("ü.py:1")
    assert len(call.site.encode()) <= SITE_BYTES
    assert call.group.startswith("0,2,")
    assert "…" in call.group
    assert call.group.endswith("~12")


# --- where a call was made ---


def test_the_site_is_the_line_of_the_cell(path, define):
    define("\n\ndef inner():\n    return recorder.begin(call)\ninner()\n", "In[3]")
    assert sites(path) == ["In[3]:4"]


def test_the_way_through_our_own_code_is_left_out(path, define):
    ours = define("def deep():\n    recorder.begin(call)\ndef all_reduce():\n    deep()\n", OURS)
    define("\n\nours()", "In[3]", ours=ours["all_reduce"])
    assert sites(path) == ["In[3]:3"]


def test_a_context_manager_of_ours_is_left_out_too(path, define):
    code = "@manager\ndef group():\n    yield\n    recorder.begin(call)\n"
    ours = define(code, OURS, manager=contextlib.contextmanager)
    define("\nwith group():\n    pass\n", "In[3]", group=ours["group"])
    assert sites(path) == ["In[3]:2"]


def test_the_way_through_a_framework_is_left_out_once_it_is_known(path, define, recorder):
    inner = define("def launch():\n    recorder.end(recorder.begin(call))", "/lib/jax/_src/a.py")
    run = "def step():\n    launch()\nstep()"
    define(run, "In[5]", launch=inner["launch"])
    recorder.pass_through("/lib/jax")
    define(run, "In[5]", launch=inner["launch"])
    define("launch()", "/lib/jaxer/b.py", launch=inner["launch"])
    assert sites(path) == ["a.py:2 < In[5]:2", "In[5]:2", "b.py:1"]


def test_from_a_file_the_site_names_its_line_and_the_cells(path, define, recorder):
    train = define("\ndef step():\n    recorder.begin(call)\n", "/home/me/train.py")
    recorder.begin_cell("In[5]")
    cell = "def outer():\n    step()\nouter()\nfor _ in range(3):\n    step()\n"
    define(cell, "In[5]", step=train["step"])
    assert sites(path) == ["train.py:3 < In[5]:2", *["train.py:3 < In[5]:5"] * 3]


def test_without_a_cell_the_site_is_the_line_of_the_file(path, define):
    define("\nrecorder.begin(call)\n", "/home/me/train.py")
    assert sites(path) == ["train.py:2"]


def test_a_function_of_an_older_cell_is_told_with_the_line_that_runs_now(path, define, recorder):
    recorder.begin_cell("In[3]")
    older = define("\ndef step():\n    recorder.begin(call)\nstep()\n", "In[3]")
    recorder.begin_cell("In[5]")
    define("\n\n\nstep()\n", "In[5]", step=older["step"])
    assert sites(path) == ["In[3]:3", "In[3]:3 < In[5]:4"]


def test_who_knows_cells_by_other_names_can_say_so(path, define, recorder):
    recorder.name_cell = lambda name: "In[9]" if name.endswith("In_9_abc.py") else ""
    recorder.begin_cell("In[9]")
    define("\nrecorder.begin(call)\n", "/dev/shm/here/In_9_abc.py")
    assert sites(path) == ["In[9]:2"]


def test_different_calls_on_one_line_are_kept_apart(path, define):
    code = "for one in calls:\n    recorder.begin(one)\n"
    calls = [CALL, Call(BARRIER, 1), CALL, Call(BARRIER, 2)]
    define(code, "In[3]", calls=calls)
    found = [(call.operation, call.site) for call in read_records(path, 0).calls]
    assert found == [("all_reduce", "In[3]:2"), ("barrier", "In[3]:2")] * 2


def test_the_site_of_the_last_call_can_be_asked_for(recorder, define):
    assert recorder.site == ""
    define("\nrecorder.begin(call)\n", "In[3]")
    assert recorder.site == "In[3]:2"
    recorder.begin(Call(BARRIER, 1))
    assert recorder.site.startswith("test_recorder.py:")


def test_sites_stay_right_however_many_signatures_there_are(recorder, path, define):
    signatures = [Signature("all_reduce", "<f4", str(size)) for size in range(5000)]
    code = "for number, one in enumerate(signatures):\n    recorder.begin(Call(one, number))\n"
    define(code, "In[3]", signatures=signatures, Call=Call)
    assert recorder._cached <= recorder_module._MOST_CACHED
    calls = read_records(path, 0).calls
    assert [call.shape for call in calls] == [str(call.sequence) for call in calls]
    assert {call.site for call in calls} == {"In[3]:2"}


# --- how it is read ---


def test_the_last_call_is_seen_with_its_age_and_then_with_its_duration(recorder, path):
    token = recorder.begin(CALL)
    later_ns = time.monotonic_ns() + 5 * 10**9
    view = read_last(path, later_ns)
    assert (view.sequence, view.operation, view.group) == (17, "all_reduce", "0,2~1")
    assert view.is_running
    assert 4.0 < view.seconds < 10.0
    recorder.end(token, is_ok=False)
    view = read_last(path, later_ns)
    assert not view.is_running
    assert view.seconds < 1.0


def test_whose_data_a_call_waits_for_is_seen_while_it_runs(recorder, path):
    token = recorder.begin(CALL)
    assert read_last(path, 0).awaits == ()
    recorder.note_awaited(CALL, [3, 1])
    assert read_last(path, 0).awaits == (3, 1)
    for many in ([], [*range(13)], [1 << 20]):
        recorder.note_awaited(CALL, many)
        assert read_last(path, 0).awaits == ()
    recorder.note_awaited(CALL, [2])
    recorder.end(token)
    assert read_last(path, 0).awaits == ()
    recorder.begin(Call(BARRIER, CALL.sequence + 1))
    assert read_last(path, 0).awaits == ()


def test_a_call_of_an_earlier_cell_is_told_as_such(recorder, path):
    recorder.begin_cell("In[3]", "cell-3")
    recorder.begin(CALL)
    assert not read_last(path, time.monotonic_ns()).is_earlier
    recorder.end_cell()
    assert not read_last(path, time.monotonic_ns()).is_earlier
    recorder.begin_cell("In[4]", "cell-4")
    assert read_last(path, time.monotonic_ns()).is_earlier
    recorder.begin(CALL)
    assert not read_last(path, time.monotonic_ns()).is_earlier


def test_a_call_outside_of_cells_and_what_it_was_given_are_seen(recorder, path):
    recorder.begin(Call(Signature("send", "<f4", "4", root=1), 3))
    view = read_last(path, time.monotonic_ns())
    assert (view.arguments, view.root, view.is_earlier) == ("float32[4], dest=1", 1, False)


def test_seeing_the_last_call_reads_next_to_nothing(recorder, path, monkeypatch):
    for sequence in range(100):
        recorder.begin(Call(BARRIER, sequence))
    asked, pread = [], os.pread

    def count(fd, size, at):
        asked.append(size)
        return pread(fd, size, at)

    monkeypatch.setattr(os, "pread", count)
    assert read_last(path, 0) is not None
    assert sum(asked) < 1000


def test_all_that_is_kept_is_read_oldest_first(recorder, path):
    for sequence in range(1, 5001):
        recorder.end(recorder.begin(Call(BARRIER, sequence)))
    assert read_last(path, 0).sequence == 5000
    records = read_records(path, 3)
    numbers = [call.sequence for call in records.calls]
    assert numbers == list(range(5000 - len(numbers) + 1, 5001))
    assert len(numbers) in (recorder_module.CALLS, recorder_module.CALLS - 1)
    assert records.rank == 3
    assert records.omitted == 5000 - len(numbers)
    assert records.left_out == 0


@pytest.mark.parametrize("made", [3, 30, 2050, 4100])
def test_of_the_last_calls_so_many_are_read_as_were_asked_for(recorder, path, made):
    for sequence in range(1, made + 1):
        recorder.end(recorder.begin(Call(BARRIER, sequence)))
    records = read_records(path, 0, last=5)
    assert [call.sequence for call in records.calls] == list(range(max(1, made - 4), made + 1))
    assert records.omitted + records.left_out == max(0, made - 5)


def test_with_calls_come_their_cells_and_all_later_ones(recorder, path):
    for number in range(400):
        recorder.begin_cell(f"In[{number}]", f"cell-{number}")
        if number < 390:
            recorder.end(recorder.begin(Call(BARRIER, number)))
        recorder.end_cell()
    labels = [cell.label for cell in read_records(path, 0, last=2).cells]
    assert labels == [f"In[{number}]" for number in range(388, 400)]
    assert len(read_records(path, 0).cells) in (255, 256)


class Writer:
    """Makes calls in the middle of what a reader does."""

    def __init__(self, recorder, monkeypatch, count):
        self._recorder, self._count = recorder, count
        self._pread = os.pread
        self._is_busy = False
        monkeypatch.setattr(os, "pread", self)

    def __call__(self, fd, size, at):
        data = self._pread(fd, size, at)
        if size > 4096 and not self._is_busy:  # the calls have just been read
            self._is_busy = True
            for number in range(self._count):
                self._recorder.begin(Call(BARRIER, 10_000 + number))
        return data


@pytest.mark.parametrize("meanwhile", [0, 1, 500, 3000])
def test_what_may_have_been_overwritten_while_it_was_read_is_left_out(
    recorder, path, monkeypatch, meanwhile
):
    for sequence in range(1, 3001):
        recorder.begin(Call(BARRIER, sequence))
    Writer(recorder, monkeypatch, meanwhile)
    records = read_records(path, 0)
    oldest = 3000 + meanwhile - recorder_module.CALLS + 2
    assert [call.sequence for call in records.calls] == list(range(oldest, 3001))
    assert records.omitted == oldest - 1


def test_a_slot_that_is_being_written_is_not_shown(recorder, path):
    for sequence in range(1, recorder_module.CALLS + 11):
        recorder.begin(Call(BARRIER, sequence))
    with open(path, "r+b") as file:  # the next call, cut off in the middle
        file.seek(recorder_module._SLOTS[10])
        file.write(os.urandom(100))
    numbers = [call.sequence for call in read_records(path, 0).calls]
    assert numbers == list(range(12, recorder_module.CALLS + 11))
    assert read_last(path, 0).sequence == recorder_module.CALLS + 10


def test_nothing_is_seen_before_the_first_call(recorder, path):
    assert read_last(path, 0) is None
    records = read_records(path, 0)
    assert (records.calls, records.cells, records.problem) == ((), (), "")


def test_of_other_files_nothing_is_seen_and_it_is_said_why(tmp_path):
    assert read_last(tmp_path / "missing", 0) is None
    missing = os.strerror(errno.ENOENT)
    assert read_records(tmp_path / "missing", 0).problem == missing
    for content in (b"", b"JDREC002", b"x" * 100_000):
        (tmp_path / "other").write_bytes(content)
        assert read_last(tmp_path / "other", 0) is None
        assert read_records(tmp_path / "other", 0).problem not in ("", missing)


# --- never in the way ---


def test_on_a_full_disk_recording_goes_on_in_memory(path, monkeypatch):
    def refuse(fd, offset, length):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(recorder_module.os, "posix_fallocate", refuse)
    recorder = CollectiveRecorder(path)
    recorder.begin_cell("In[3]")
    recorder.end(recorder.begin(CALL))
    recorder.end_cell()
    assert recorder.site.startswith("test_recorder.py:")
    recorder.close()
    assert not recorder.is_shared
    assert read_last(path, 0) is None
    assert read_records(path, 0).problem


def test_without_a_folder_recording_goes_on_in_memory(tmp_path):
    recorder = CollectiveRecorder(tmp_path / "missing" / "calls")
    recorder.end(recorder.begin(CALL))
    assert not recorder.is_shared
    recorder.close()


def test_what_was_recorded_stays_when_the_recorder_is_closed(path):
    recorder = CollectiveRecorder(path)
    recorder.end(recorder.begin(CALL))
    recorder.close()
    recorder.end(recorder.begin(Call(BARRIER, 1)))  # from a thread that has not noticed
    assert [call.operation for call in read_records(path, 0).calls] == ["all_reduce"]


def test_names_of_files_that_are_no_text_do_no_harm(path, define):
    define("recorder.begin(call)", "/x/\udcff.py")
    assert sites(path) == ["?.py:1"]


def test_the_file_is_for_its_owner_only(recorder, path):
    assert path.stat().st_mode & 0o777 == 0o600
