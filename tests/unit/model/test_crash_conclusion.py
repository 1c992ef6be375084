import signal

import pytest

from jupyter_dist.model.crash import CrashReport
from jupyter_dist.model.crash_conclusion import conclude, share_text, size_text
from jupyter_dist.model.end_marks import EndCause

GIB = 2**30
STACK = (
    "Fatal Python error: Segmentation fault",
    "Current thread 0x01 (most recent call first):",
    '  File "/dev/shm/x/In_3_0a1b2c3d.py", line 7 in <module>',
)
XID = "NVRM: Xid (PCI:0000:3b:00): {}, pid=4711, name=python3, and more"


def say(number=0, **known):
    return conclude(CrashReport(rank=2, host="a", pid=4711, reason="", signal=number, **known))


def killed(**known):
    room = {"memory_total_bytes": 64 * GIB, "memory_available_bytes": 12 * GIB, **known}
    return say(signal.SIGKILL, **room)


def test_an_exit_code_is_told_with_who_can_have_set_it():
    told = "its process exited with code 3 in In[3]"
    mark = {"end_cause": EndCause.EXIT_CALLED, "end_detail": "In[3]:7"}
    assert say(exit_code=3, cell="In[3]", **mark) == f"{told} (os._exit at In[3]:7)"
    assert say(exit_code=3, cell="In[3]") == (
        f"{told} (not by Python: perhaps exit() in native code)"
    )
    assert say(exit_code=0) == "its process exited with code 0"


def test_a_process_that_ended_itself_for_a_reason_of_ours_says_so():
    silent = say(exit_code=1, cell="In[3]", end_cause=EndCause.OUT_OF_REACH, end_detail="12 s")
    assert silent == "it could not hear its coordinator for 12 s, and ended itself"
    own = say(exit_code=1, end_cause=EndCause.OWN_ERROR, end_detail="KeyError: 'a'")
    assert own == (
        "it ended with an error of jupyter-dist itself (KeyError: 'a'); its stderr has the traceback"
    )


def test_a_mark_of_one_that_was_killed_all_the_same_explains_nothing():
    mark = {"end_cause": EndCause.EXIT_CALLED, "end_detail": "In[3]:7"}
    assert "os._exit" not in say(signal.SIGKILL, **mark)


def test_a_signal_without_a_name_is_told_by_its_number():
    assert say(63) == "its process was killed by signal 63"


# --- SIGKILL ---


def test_a_kill_that_the_kernel_counted_is_out_of_memory():
    text = killed(
        oom_kills=1,
        memory_limit_bytes=4 * GIB,
        rss_history=((0.5, GIB), (0.0, 39 * GIB // 10)),
    )
    assert text == (
        "its process was killed by SIGKILL: out of memory (the kernel's OOM killer counted 1 kill "
        "in its cgroup; it used 3.9 of 4.0 GiB)"
    )


def test_more_than_the_limit_is_no_part_of_it():
    text = killed(oom_kills=1, memory_limit_bytes=GIB, rss_history=((0.0, 2 * GIB),))
    assert text.endswith("in its cgroup; it used 2.0 GiB, and 1.0 GiB are the limit)")


def test_a_kill_on_a_host_without_limits_is_told_as_such():
    assert killed(oom_kills=2, rss_history=((0.4, 60 * GIB),)).endswith(
        "out of memory (the kernel's OOM killer counted 2 kills on its host; it used 60.0 GiB)"
    )


def test_the_kernels_log_is_evidence_as_well():
    text = killed(kernel=("Out of memory: Killed process 4711 (python3) total-vm:1kB",))
    assert text.endswith("SIGKILL: out of memory (the kernel's log says so)")


def test_without_evidence_memory_is_not_blamed():
    assert killed() == (
        "its process was killed by SIGKILL (somebody sent it; no sign of memory shortage: "
        "12.0 of 64.0 GiB were free)"
    )


def test_a_limit_that_was_far_away_is_no_sign_either():
    text = killed(memory_limit_bytes=4 * GIB, rss_history=((0.5, GIB // 5),))
    assert text.endswith("no sign of memory shortage: it used 205 MiB of 4.0 GiB)")


def test_steep_growth_with_little_left_is_likely_out_of_memory():
    text = killed(
        memory_available_bytes=GIB // 2,
        rss_history=((9.0, 4 * GIB), (5.0, 30 * GIB), (0.5, 60 * GIB)),
    )
    assert text.endswith(
        "SIGKILL: likely out of memory (it grew by 56.0 GiB in its last 9 s, and "
        "512 MiB of 64.0 GiB were free)"
    )


def test_little_memory_without_growth_leaves_the_question_open():
    text = killed(memory_available_bytes=GIB, rss_history=((9.0, GIB), (0.5, GIB)))
    assert "out of memory" not in text
    assert "memory was short: 1.0 of 64.0 GiB were free" in text


def test_growth_with_much_left_is_no_shortage():
    text = killed(rss_history=((9.0, GIB), (0.5, 30 * GIB)))
    assert "somebody sent it; no sign of memory shortage" in text


def test_a_kill_of_which_nothing_is_known_claims_nothing():
    assert say(signal.SIGKILL) == "its process was killed by SIGKILL (somebody sent it)"


# --- native code ---


def test_a_segfault_names_the_line_that_called_native_code():
    assert say(signal.SIGSEGV, line="In[3]:7", cell="In[3]", stacks=STACK) == (
        "its process was killed by SIGSEGV in native code called from In[3]:7"
    )


def test_a_segfault_inside_a_library_names_its_function():
    inner = '  File "/lib/ctypes/__init__.py", line 519 in string_at'
    stacks = (*STACK[:2], inner, STACK[2])
    assert "native code of string_at called from In[3]:7" in say(
        signal.SIGSEGV, line="In[3]:7", stacks=stacks
    )


def test_a_recursion_is_an_overflow_of_the_stack_and_no_native_code():
    calls = [STACK[2]] * 60
    text = say(signal.SIGSEGV, line="In[3]:7", stacks=(*STACK[:2], *calls, "  ..."))
    assert text == (
        "its process was killed by SIGSEGV at In[3]:7: its stack overflowed, by a recursion more "
        "than 100 calls deep"
    )


def test_a_stack_that_is_very_deep_hints_at_a_recursion():
    text = say(signal.SIGSEGV, line="In[3]:7", stacks=(*STACK, "  ..."))
    assert text.endswith("(more than 100 calls deep: perhaps a recursion without an end)")


def test_a_segfault_whose_stack_nobody_left_names_the_cell_only():
    assert say(signal.SIGSEGV, cell="In[3]") == (
        "its process was killed by SIGSEGV while it ran In[3]"
    )
    assert say(signal.SIGSEGV) == "its process was killed by SIGSEGV"


def test_a_bus_error_with_full_shared_memory_names_it():
    assert say(signal.SIGBUS, is_shared_memory_full=True, line="In[3]:7") == (
        "its process was killed by SIGBUS: /dev/shm is full in In[3]:7"
    )
    assert "/dev/shm" not in say(signal.SIGBUS)


def test_an_abort_quotes_what_cpp_said():
    said = (
        "loading",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "  what():  std::bad_alloc",
    )
    text = say(signal.SIGABRT, line="In[3]:7", stderr=said, address_limit_bytes=2 * GIB)
    assert text == (
        "its process was killed by SIGABRT in native code called from In[3]:7 (its address space "
        "is limited to 2.0 GiB); it said: terminate called after throwing an instance of "
        "'std::bad_alloc' what():  std::bad_alloc"
    )


def test_an_abort_of_python_itself_quotes_python():
    stacks = ("Fatal Python error: cannot recover from stack overflow", *STACK[1:])
    assert say(signal.SIGABRT, stacks=stacks).endswith(
        "; Python said: cannot recover from stack overflow"
    )


def test_any_other_abort_quotes_the_last_line():
    stacks = ("Fatal Python error: Aborted", *STACK[1:])
    text = say(signal.SIGABRT, stacks=stacks, stderr=("one", "free(): invalid pointer"))
    assert text.endswith("; it said last: free(): invalid pointer")


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGILL, "built for another processor"),
        (signal.SIGFPE, "division of integers by zero"),
        (signal.SIGXCPU, "used up its limit of processor time (ulimit -t) in In[3]"),
        (signal.SIGXFSZ, "longer than its limit (ulimit -f) in In[3]"),
        (signal.SIGTERM, "somebody asked it to end"),
        (signal.SIGALRM, "an alarm that its own code set"),
        (signal.SIGSYS, "a system call that a filter forbids"),
    ],
)
def test_a_signal_says_what_it_stands_for(number, words):
    text = say(number, cell="In[3]")
    assert words in text
    assert number.name in text


# --- GPUs ---


def test_an_error_of_its_gpu_is_named():
    text = say(exit_code=1, gpu_errors=(XID.format(79),))
    assert text.endswith("; before that its GPU reported Xid 79 (it has fallen off the bus)")


def test_what_the_driver_says_after_any_kill_is_no_cause():
    assert "Xid" not in killed(gpu_errors=(XID.format(45),))
    assert "Xid 31 (" in killed(gpu_errors=(XID.format(31), XID.format(45)))


def test_an_error_without_a_known_meaning_is_a_number():
    assert say(exit_code=1, gpu_errors=(XID.format(999),)).endswith("reported Xid 999")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 MiB"), (5 * 2**20, "5 MiB"), (GIB, "1.0 GiB"), (250 * GIB, "250 GiB")],
)
def test_sizes_are_written_as_people_do(count, text):
    assert size_text(count) == text


def test_a_share_names_the_unit_once_where_it_is_the_same():
    assert share_text(3 * GIB, 4 * GIB) == "3.0 of 4.0 GiB"
    assert share_text(GIB // 2, 4 * GIB) == "512 MiB of 4.0 GiB"
