"""What ranks have recorded is read from outside: of ranks that hang, stopped, or were killed."""

import json
import re
import signal

import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.model.spec.cluster_spec import HostSpec
from jupyter_dist.views.tables.collectives_table import collectives_text
from tests.facts import assert_tells
from tests.suspending import resume, suspend

from .leftovers import engines_of, wait_until
from .results import values

LATE = """\
import os, time
import numpy as np
comm.barrier()
while rank == 1 and not os.path.exists({gate!r}):
    time.sleep(0.01)
comm.all_reduce(np.ones(4, np.float32))
"""


def kinds(row):
    return [row.states[rank].kind for rank in sorted(row.states)]


def marked_rows(cluster):
    return [row for row in cluster.collectives().table().rows if row.is_marked]


def wait_for_mark(cluster, states, operation=""):
    """Wait until a row of this operation is marked, with these states."""

    def find():
        rows = [row for row in marked_rows(cluster) if row.what.startswith(operation)]
        return [row for row in rows if kinds(row) == states]

    return wait_until(find, 10, f"{states}")[0]


@pytest.fixture
def late(four, tmp_path, in_background):
    """Three ranks wait for rank 1 in the cell In[7]; the cell goes on when the test is over."""
    gate = tmp_path / "gate"
    running = in_background(four.run, LATE.format(gate=str(gate)), label=7)
    yield four
    gate.touch()
    assert running.result(10).ok


def test_a_hang_shows_who_waits_where_and_who_has_not_come(late):
    row = wait_for_mark(late, ["waiting", "never", "waiting", "waiting"], "all_reduce")
    assert row.what == "all_reduce(float32[4], sum)"
    assert row.sites == ("In[7]:6",)
    table = late.collectives(last=5).table(5)
    assert_tells(
        table.verdict, "ranks 0,2-3 wait", "all_reduce(float32[4], sum) #", "rank 1 has not"
    )
    assert re.search(r"last call .*barrier\(\) #\d+ at In\[7\]:3$", table.verdict)
    assert "▶ ranks 0,2-3 wait in" in collectives_text(table)


def test_asking_takes_no_time_while_ranks_hang(late, within):
    wait_for_mark(late, ["waiting", "never", "waiting", "waiting"])
    with within(1.0):
        late.collectives(last=0)


def test_when_the_hang_is_over_nothing_is_marked(four):
    assert four.run("comm.barrier()").ok
    found = four.collectives().table()
    assert found.rows[-1].what == "barrier()"
    assert kinds(found.rows[-1]) == ["done"] * 4
    assert found.verdict == ""


def test_ranks_that_call_different_things_are_told_with_their_lines(four):
    code = "import numpy as np\nif rank == 2:\n    comm.barrier()\nelse:\n    comm.all_reduce(1.0)"
    assert not four.run(code, label=9, check=True).ok
    table = four.collectives().table()
    assert "ranks 0-1,3 called all_reduce(float64[], sum) #" in table.verdict
    assert "rank 2 called barrier() #" in table.verdict
    assert table.verdict.endswith(" at In[9]:3")
    most, odd = marked_rows(four)
    assert kinds(most) == ["failed", "failed", "other", "failed"]
    assert kinds(odd) == ["apart", "apart", "failed", "apart"]


def test_a_function_in_a_file_is_told_with_the_cell_line_that_led_there(four, tmp_path):
    (tmp_path / "my_training.py").write_text("def step(comm):\n    comm.barrier()\n")
    code = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport my_training\n"
    assert four.run(code + "for _ in range(2):\n    my_training.step(comm)", label=4).ok
    sites = {call.site for call in four.collectives(last=2).ranks[3].calls}
    assert sites == {"my_training.py:2 < In[4]:5"}


def test_object_collectives_and_groups_are_recorded_with_their_names(four):
    code = "pair = comm.split(rank % 2)\npair.barrier()\ncomm.all_gather_object({'rank': rank})"
    assert four.run(code, label=5).ok
    rows = four.collectives().table().rows[-3:]
    assert {row.what for row in rows} == {
        "barrier() in group 0,2",
        "barrier() in group 1,3",
        "all_gather_object()",
    }
    by_what = {row.what: kinds(row) for row in rows}
    assert by_what["barrier() in group 1,3"] == ["apart", "done", "apart", "done"]


def test_who_waits_in_a_group_is_explained_by_its_members(four, tmp_path, in_background):
    gate = tmp_path / "gate"
    code = (
        "import os, time\npair = comm.split(rank % 2)\n"
        f"while rank == 2 and not os.path.exists({str(gate)!r}):\n    time.sleep(0.01)\n"
        "pair.barrier()"
    )
    running = in_background(four.run, code, label=6)
    try:
        note = wait_until(lambda: four.topology().note, 10, "a note")
    finally:
        gate.touch()
    assert running.result(10).ok
    assert_tells(
        note, "rank 0 waits", "barrier #1 of group 0,2 (In[6]:5) for ", " s; rank 2 has not"
    )


def test_the_records_of_a_rank_that_was_killed_are_still_there(start, in_background):
    cluster = start("localhost:2")
    assert cluster.run("for _ in range(3): comm.barrier()", label=1).ok
    hang = "import time\nif rank == 0: time.sleep(600)\ncomm.barrier()"
    running = in_background(cluster.run, hang, label=2)
    wait_for_mark(cluster, ["never", "waiting"])
    engines_of(cluster)[1].send_signal(signal.SIGKILL)
    row = wait_for_mark(cluster, ["never", "lost"])
    assert row.sites == ("In[2]:3",)
    records = cluster.collectives().ranks[1]
    assert records.has_ended
    assert [call.operation for call in records.calls] == ["barrier"] * 4
    assert [cell.label for cell in records.cells] == ["In[1]", "In[2]"]
    assert_tells(cluster.collectives().table().verdict, "rank 1 was lost", "barrier() #4")
    cluster.interrupt()
    assert not running.result(10).ok


def test_a_rank_that_was_stopped_is_read_like_any_other(start, in_background, within):
    cluster = start("localhost:2")
    assert cluster.run("comm.barrier()").ok
    engine = engines_of(cluster)[1]
    suspend(engine.pid)
    try:
        running = in_background(cluster.run, "comm.barrier()", label=2)
        row = wait_for_mark(cluster, ["waiting", "never"])
        assert row.sites == ("In[2]:1",)
        with within(1.0):
            log = cluster.collectives()
        assert len(log.ranks[1].calls) == 1
        assert not log.ranks[1].has_ended
        assert_tells(log.table().verdict, "rank 1 has not", "begun")
    finally:
        resume(engine.pid)
    assert running.result(10).ok
    assert cluster.collectives().table().verdict == ""


def read_slices(path):
    trace = json.loads(path.read_text())
    return trace["otherData"], [event for event in trace["traceEvents"] if event["ph"] == "X"]


def test_the_timeline_of_a_run_shows_who_waited_for_whom(start, tmp_path):
    hosts = (HostSpec("a", 1, launcher="local"), HostSpec("b", 1, launcher="local"))
    cluster = start(hosts, one_machine=True)
    here = tmp_path / "here"
    first = f"open({str(here)!r}, 'w').close()"
    code = (
        "import os, time\n"
        "for _ in range(3): comm.barrier()\n"
        f"if rank == 0: {first}\n"
        f"while not os.path.exists({str(here)!r}): time.sleep(0.005)\n"
        "time.sleep(2 * rank)\n"
        "comm.barrier()"
    )
    assert cluster.run(code, label=3).ok
    path = tmp_path / "trace.json"
    told = str(cluster.timeline(path))
    assert told.startswith(f"wrote 1 cell and 8 calls of 2 ranks to {path};")
    facts, slices = read_slices(path)
    assert facts["clocks"]["b"].endswith("after 4 collectives")
    waits = [each for each in slices if each["name"] == "wait for rank 1" and each["tid"] == 0]
    longest = max(waits, key=lambda each: each["dur"])
    assert 500_000 < longest["dur"] < 30_000_000
    barriers = [each for each in slices if each["name"] == "barrier"]
    assert {each["args"]["site"] for each in barriers} == {"In[3]:2", "In[3]:6"}
    assert {(each["pid"], each["tid"]) for each in barriers} == {(1, 0), (2, 1)}


def test_a_timeline_is_not_written_over_what_is_not_ours(four, tmp_path):
    path = tmp_path / "data.json"
    path.write_text("{}")
    with pytest.raises(UsageError, match=re.escape(str(path))):
        four.timeline(path)
    assert four.timeline(path, force=True).rank_count == 4
    assert four.timeline(path).rank_count == 4


def test_what_a_recorder_has_forgotten_is_counted(four, tmp_path):
    assert values(four.run("for _ in range(2100): comm.barrier()\ncomm.size")) == ["4"] * 4
    found = four.timeline(tmp_path / "trace.json")
    assert found.forgotten_count >= 4 * 50
    assert found.call_count >= 4 * 2040
