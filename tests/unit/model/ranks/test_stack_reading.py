import pytest

import jupyter_dist
from jupyter_dist.model.ranks.source_files import (
    name_cell_file,
    name_cells,
    name_places,
    write_file_name,
)
from jupyter_dist.model.ranks.stack_reading import group_stacks, read_faulthandler, read_py_spy
from jupyter_dist.model.ranks.stacks import Frame, RankStacks, ThreadStack

PYTHON = "/usr/lib/python3.11"
OURS = jupyter_dist.__file__.removesuffix("/__init__.py")
CELL = "/dev/shm/jd/In_3_0a1b2c3d.py"
START = f"""\
  File "{PYTHON}/site-packages/IPython/core/interactiveshell.py", line 3577 in run_code
  File "{OURS}/engine/executor.py", line 104 in _run_user_code
  File "{OURS}/engine/__main__.py", line 160 in main
  File "<frozen runpy>", line 198 in _run_module_as_main
"""
WORKER = f"""\
Thread 0x00007f19bcb416c0 (most recent call first):
  File "{PYTHON}/threading.py", line 327 in wait
  File "{PYTHON}/queue.py", line 171 in get
  File "/home/me/feed.py", line 12 in pump
  File "{PYTHON}/threading.py", line 982 in run
  File "{PYTHON}/threading.py", line 1045 in _bootstrap_inner
  File "{PYTHON}/threading.py", line 1002 in _bootstrap

"""
OWN = f"""\
Thread 0x00007f19bd0006c0 (most recent call first):
  File "{PYTHON}/site-packages/zmq/sugar/poll.py", line 106 in poll
  File "{OURS}/engine/link.py", line 80 in _serve
  File "{PYTHON}/threading.py", line 982 in run
  File "{PYTHON}/threading.py", line 1002 in _bootstrap

"""
MAIN = "Current thread 0x00007f19bd836b80 (most recent call first):\n"


def dump(calls, *others, start=START):
    """What faulthandler writes of a main thread that is in these calls."""
    return "".join(others) + MAIN + calls + start


def call(file, line, function):
    return f'  File "{file}", line {line} in {function}\n'


def places(thread):
    return [(frame.site, frame.function) for frame in thread.frames]


# --- faulthandler ---


def test_the_main_thread_begins_with_the_cell_and_comes_first():
    calls = call("/home/me/train.py", 12, "fit") + call(CELL, 7, "<module>")
    main, worker = read_faulthandler(dump(calls, WORKER))
    assert main.is_main
    assert places(main) == [("In[3]:7", "<module>"), ("/home/me/train.py:12", "fit")]
    assert not worker.is_main
    assert places(worker) == [
        ("/home/me/feed.py:12", "pump"),
        (f"{PYTHON}/queue.py:171", "get"),
        (f"{PYTHON}/threading.py:327", "wait"),
    ]


def test_threads_of_ours_vanish():
    calls = call(CELL, 7, "<module>")
    assert len(read_faulthandler(dump(calls, OWN, WORKER, OWN.replace("d0", "e0")))) == 2


@pytest.mark.parametrize(
    ("calls", "sites"),
    [
        ([(f"{PYTHON}/selectors.py", 415), (f"{OURS}/collective/host.py", 40)], []),
        (
            [("/home/me/model.py", 3), (f"{OURS}/engine/code/reloading.py", 90)],
            [f"{OURS}/engine/code/reloading.py:90", "/home/me/model.py:3"],
        ),
        (
            [("/home/me/f.py", 3), (f"{PYTHON}/site-packages/IPython/core/magics/execution.py", 3)],
            ["/home/me/f.py:3"],
        ),
    ],
    ids=["calls of ours end it", "but not our reloading of their code", "IPython is left out"],
)
def test_a_stack_has_what_is_the_users_below_the_cell(calls, sites):
    text = "".join(call(file, line, "f") for file, line in [*calls, (CELL, 7)])
    (main,) = read_faulthandler(dump(text))
    assert [site for site, _ in places(main)] == ["In[3]:7", *sites]


PROGRAM = f"{OURS}/engine/execution/program.py"
RUNPY = "<frozen runpy>"
TRAIN = "/home/me/train.py"


@pytest.mark.parametrize(
    ("calls", "sites"),
    [
        ([(TRAIN, 7), (PROGRAM, 66), (CELL, 1)], [f"{TRAIN}:7"]),
        ([(TRAIN, 7), (RUNPY, 88), (RUNPY, 198), (PROGRAM, 78), (CELL, 1)], [f"{TRAIN}:7"]),
        ([(f"{OURS}/collective/host.py", 9), (TRAIN, 7), (PROGRAM, 66), (CELL, 1)], [f"{TRAIN}:7"]),
        ([(f"{OURS}/frameworks/jax/setup.py", 9), (PROGRAM, 40), (CELL, 1)], ["In[3]:1"]),
    ],
    ids=["script", "module", "inside a call of ours", "before it begins"],
)
def test_a_stack_of_a_program_begins_in_the_program(calls, sites):
    text = "".join(call(file, line, "f") for file, line in calls)
    (main,) = read_faulthandler(dump(text))
    assert [site for site, _ in places(main)] == sites


def test_a_rank_without_a_cell_has_an_empty_stack():
    (main,) = read_faulthandler(dump(""))
    assert main == ThreadStack("MainThread", is_main=True)


def test_of_several_dumps_the_last_one_counts():
    first, second = dump(call(CELL, 7, "f"), WORKER), dump(call(CELL, 9, "g"))
    (main,) = read_faulthandler(first + "\n" + second)
    assert places(main) == [("In[3]:9", "g")]


def test_names_of_threads_are_taken_where_python_writes_them():
    named = WORKER.replace("6c0 (", "6c0 [feeder] (")
    assert read_faulthandler(dump("", named))[1].name == "feeder"
    assert read_faulthandler(dump("", WORKER))[1].name == "thread 1"


def test_code_is_added_where_it_can_be_read():
    lines = {(CELL, 7): "    x = fit(data)\n"}
    (main,) = read_faulthandler(
        dump(call(CELL, 7, "<module>")), read_line=lambda file, line: lines[file, line]
    )
    assert main.frames == (Frame("<module>", "In[3]:7", "x = fit(data)"),)


def test_lines_that_are_not_known_and_rubbish_do_no_harm():
    text = dump(call(CELL, "???", "f").replace('"???"', "???") + "  ...\nrubbish\n  File x\n")
    assert places(read_faulthandler(text)[0]) == [("In[3]", "f")]
    assert read_faulthandler("") == ()
    assert read_faulthandler('  File "a.py", line 3 in f\n') == ()


def test_only_files_of_cells_are_taken_for_cells():
    assert name_cell_file(CELL) == "In[3]"
    assert name_cell_file("In_12_ffffffff.py") == "In[12]"
    assert name_cell_file(write_file_name(7, "a = 1")) == "In[7]", "what is written can be read"
    for name in ("/x/In_3_0a1b2c3d.pyc", "/x/In_3_0a1b.py", "/x/Pin_3_0a1b2c3d.py", "In[3]", ""):
        assert name_cell_file(name) == ""


# --- py-spy ---

SPY = f"""\
Process 4711: python -m jupyter_dist.engine
Python v3.11.7 (/usr/bin/python3.11)

Thread 4711 (active+gil): "MainThread"
    gloo::allreduce(gloo::AllreduceOptions const&) (libtorch_cpu.so)
    0x7f19bcb416c0 (libc.so.6)
    all_reduce (torch/distributed/distributed_c10d.py:2806)
    <module> (In_3_0a1b2c3d.py:7)
    run_code (IPython/core/interactiveshell.py:3577)
Thread 0x7F19BCB416C0 (idle): "feed (1)"
    wait ({PYTHON}/threading.py:327)
Thread 4713 (idle)
    epoll_wait (libc.so.6)
"""


def test_py_spy_shows_native_calls_and_keeps_every_frame():
    main, feed, unnamed = read_py_spy(SPY)
    assert places(main) == [
        ("IPython/core/interactiveshell.py:3577", "run_code"),
        ("In[3]:7", "<module>"),
        ("torch/distributed/distributed_c10d.py:2806", "all_reduce"),
        ("libc.so.6", "0x7f19bcb416c0"),
        ("libtorch_cpu.so", "gloo::allreduce(gloo::AllreduceOptions const&)"),
    ]
    assert feed.name == "feed (1)"
    assert unnamed.name == "thread 4713"
    assert places(unnamed) == [("libc.so.6", "epoll_wait")]


def test_the_main_thread_comes_first_wherever_py_spy_has_it():
    head, *threads = SPY.split("Thread ")
    text = head + "".join(f"Thread {thread}" for thread in reversed(threads))
    assert [thread.is_main for thread in read_py_spy(text)] == [True, False, False]
    assert read_py_spy("Error: Permission Denied") == ()


# --- ranks that do the same ---


def stacks(*frames, threads=(), **more):
    main = ThreadStack("MainThread", is_main=True, frames=frames)
    return RankStacks(threads=(main, *threads), **more)


WAITS, LOADS = Frame("<module>", "In[3]:7", "barrier()"), Frame("load", "In[3]:2")


def test_ranks_with_the_same_stack_are_together_and_odd_ones_come_first():
    groups = group_stacks({0: stacks(WAITS), 1: stacks(WAITS), 2: stacks(LOADS), 3: stacks(WAITS)})
    assert [(group.ranks, group.frames) for group in groups] == [
        ((2,), (LOADS,)),
        ((0, 1, 3), (WAITS,)),
    ]


def test_a_stopped_process_is_not_like_others():
    groups = group_stacks({0: stacks(WAITS), 1: stacks(WAITS, process_state="T")})
    assert [group.ranks for group in groups] == [(0,), (1,)]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (stacks(WAITS), ""),
        (stacks(WAITS, process_state="T"), "its process is stopped"),
        (RankStacks("none", note="it has ended"), "it has ended"),
        (RankStacks(), "its stack could not be read"),
        (stacks(WAITS, source="faulthandler", note="by signal"), "seen by faulthandler; by signal"),
        (stacks(), "runs no cell"),
    ],
)
def test_what_is_to_be_known_beside_a_stack_is_told(found, words):
    (group,) = group_stacks({0: found})
    assert group.words == words


def test_other_threads_are_told_with_the_ranks_that_have_them():
    feed = ThreadStack("feed", is_main=False, frames=(LOADS,))
    found = {0: stacks(WAITS, threads=(feed,)), 1: stacks(WAITS), 2: stacks(WAITS, threads=(feed,))}
    (group,) = group_stacks(found)
    assert group.threads == (((0, 2), feed),)


@pytest.mark.parametrize(
    ("text", "named", "placed"),
    [
        ("/t/In_3_0a1b2c3d.py:7: UserWarning: x", "In[3]:7: UserWarning: x", True),
        ('  File "/t/a b/In_3_0a1b2c3d.py", line 7, in f', "  In[3]:7, in f", True),
        ("f at /t/In_3_0a1b2c3d.py:7:4 (g)", "f at In[3]:7:4 (g)", True),
        ('loc("/t/In_3_0a1b2c3d.py":2:11 to :21)', 'loc("In[3]":2:11 to :21)', True),
        ("0.0 In_3_0a1b2c3d.py:1(slow)", "0.0 In[3]:1(slow)", True),
        ("\x1b[32m/t/In_3_0a1b2c3d.py\x1b[0m:7", "\x1b[32mIn[3]\x1b[0m:7", False),
        ('open("/t/In_3_0a1b2c3d.py")', 'open("In[3]")', False),
        ("In_12_0a1b2c3d.py\n", "In[12]\n", False),
        ("/t/Pin_3_0a1b2c3d.py In_3_0a1b2c3d.pyc In_3.py", None, False),
    ],
)
def test_files_of_cells_are_named_and_a_printed_path_stays_one_unless_a_line_follows(
    text, named, placed
):
    assert name_cells(text) == (named or text)
    assert name_places(text) == (named if placed else text)


RUNNER = """\
{margin}  File "<frozen runpy>", line 198, in _run_module_as_main
{margin}  File "<frozen runpy>", line 88, in _run_code
{margin}  File "/p/jupyter_dist/engine/zygote.py", line 197, in <module>
{margin}    main()
{margin}  File "/p/IPython/core/interactiveshell.py", line 3823, in run_code
{margin}    exec(code_obj, self.user_global_ns, self.user_ns)
"""
OF_CELL = '{margin}  File "/t/In_3_0a1b2c3d.py", line 3, in <module>\n{margin}    y = f(x)\n'


@pytest.mark.parametrize("margin", ["", "V1123 [2/0] ", "    | "])
@pytest.mark.parametrize("name", [name_cells, name_places])
def test_a_stack_begins_with_the_line_of_the_cell(name, margin):
    told = (
        "Traceback of forward call:\n" + (RUNNER + OF_CELL).format(margin=margin) + "RuntimeError"
    )
    expected = f"Traceback of forward call:\n{margin}  In[3]:3, in <module>\n{margin}    y = f(x)\n"
    assert name(told) == expected + "RuntimeError"


def test_frames_that_lead_to_no_cell_are_left_in_a_stack():
    of_a_program = RUNNER.format(margin="") + "ValueError: x\n"
    told = of_a_program + "In_3_0a1b2c3d.py:7\n" + OF_CELL.format(margin="")
    assert name_cells(told).startswith(of_a_program)
