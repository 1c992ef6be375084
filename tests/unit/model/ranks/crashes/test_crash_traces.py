import pytest

from jupyter_dist.model.ranks.crashes.crash_traces import (
    LAST_LINES,
    STACK_LINES,
    cell_line,
    fatal_error,
    innermost_call,
    is_deep,
    read_traces,
    without_stacks,
)

CELL = "/dev/shm/jupyter-dist-7/In_3_0a1b2c3d.py"
THREADS = ("Thread", "Current thread")
SEGFAULT = f"""\
step 1 done
cannot open libfoo.so
Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/dev/shm/jupyter-dist-7/In_2_99999999.py", line 1 in run

Current thread 0x00007f02 (most recent call first):
  File "/usr/lib/python3.11/ctypes/__init__.py", line 519 in string_at
  File "{CELL}", line 7 in peek
  File "{CELL}", line 9 in <module>
  File "/usr/lib/python3.11/site-packages/IPython/core/interactiveshell.py", line 3553 in run_code

Extension modules: numpy.core._multiarray_umath, zmq.backend (total: 2)
"""


def test_what_people_and_libraries_wrote_is_apart_from_the_stacks():
    traces = read_traces(SEGFAULT)
    assert traces.stderr == ("step 1 done", "cannot open libfoo.so")
    assert traces.stacks[0] == "Fatal Python error: Segmentation fault"
    assert not any("Extension modules" in line for line in traces.stacks)


def test_the_thread_that_was_hit_comes_first():
    stacks = read_traces(SEGFAULT).stacks
    assert [line.split(" ")[0] for line in stacks if not line.startswith(" ")] == [
        "Fatal",
        "Current",
        "Thread",
    ]


def test_what_has_called_the_cell_and_threads_of_ours_are_left_out():
    ours = 'Thread 0x09 (most recent call first):\n  File "/x/jupyter_dist/engine/link.py", line 1 in f'
    stacks = read_traces(SEGFAULT.replace("Extension", f"{ours}\nExtension")).stacks
    assert not any("IPython" in line or "jupyter_dist/" in line for line in stacks)
    assert stacks[-1] == '  File "/dev/shm/jupyter-dist-7/In_2_99999999.py", line 1 in run'


PROGRAM = SEGFAULT.replace(CELL, "/home/me/train.py").replace(
    "/usr/lib/python3.11/site-packages/IPython/core/interactiveshell.py", "RUNPY"
)
RUNS = "/x/jupyter_dist/engine/execution/program.py"


@pytest.mark.parametrize(
    "way", [f"{RUNS}", f'<frozen runpy>", line 88 in _run_code\n  File "{RUNS}']
)
def test_a_program_is_named_by_its_own_lines(way):
    stacks = read_traces(PROGRAM.replace("RUNPY", way)).stacks
    assert cell_line(stacks) == "train.py:7"
    assert innermost_call(stacks) == "string_at"
    assert not any("program.py" in line or "runpy" in line for line in stacks)


def test_a_thread_of_a_program_has_no_line_of_it():
    text = SEGFAULT.replace(CELL, "/usr/lib/python3.11/threading.py").replace("<module>", "run")
    assert cell_line(read_traces(text).stacks) == ""


def test_the_innermost_line_of_a_cell_is_found_in_the_thread_that_was_hit():
    stacks = read_traces(SEGFAULT).stacks
    assert cell_line(stacks) == "In[3]:7"
    assert innermost_call(stacks) == "string_at"
    assert fatal_error(stacks) == "Segmentation fault"


def test_the_line_of_another_thread_is_not_taken_for_it():
    stacks = read_traces(SEGFAULT.replace("In_3_0a1b2c3d.py", "library.py")).stacks
    assert cell_line(stacks) == ""


def test_a_cell_that_called_native_code_itself_names_no_function():
    text = SEGFAULT.replace(
        '  File "/usr/lib/python3.11/ctypes/__init__.py", line 519', '  File "x'
    )
    stacks = read_traces(text).stacks
    assert cell_line(stacks) == "In[3]:7"
    assert innermost_call(stacks) == ""


def test_stderr_without_a_fatal_error_is_all_text():
    traces = read_traces("one\n\ntwo\n")
    assert traces == (("one", "two"), ())
    assert cell_line(()) == innermost_call(()) == fatal_error(()) == ""


def test_what_a_library_says_after_the_stacks_is_kept():
    assert read_traces(f"{SEGFAULT}core dumped\n").stderr[-1] == "core dumped"


def test_only_the_last_lines_of_much_and_all_of_the_thread_that_was_hit_are_kept():
    said = "\n".join(f"line {number}" for number in range(500))
    calls = "\n".join(f'  File "a.py", line {number} in f' for number in range(100))
    threads = [f"{kind} 0x01 (most recent call first):\n{calls}\n  ..." for kind in THREADS]
    traces = read_traces("\n".join([said, "Fatal Python error: Aborted", "", *threads]))
    assert traces.stderr == tuple(f"line {number}" for number in range(500 - LAST_LINES, 500))
    assert len(traces.stacks) == STACK_LINES + 1
    assert traces.stacks[-1] == "… 85 more lines"
    assert is_deep(traces.stacks)


def test_a_dump_on_demand_is_not_taken_for_the_end():
    dump = 'Current thread 0x01 (most recent call first):\n  File "a.py", line 1 in f\n'
    assert read_traces(dump).stacks == ()


def test_what_faulthandler_wrote_can_be_left_out():
    text = "said\nFatal Python error: Aborted\n\nCurrent thread 0x0 (most recent call first):\n"
    text += '  File "/tmp/In_3_01234567.py", line 2 in <module>\n\nExtension modules: a.b\nlater\n'
    assert without_stacks(text) == "said\nlater\n"
    assert without_stacks("nothing\nof it") == "nothing\nof it"
