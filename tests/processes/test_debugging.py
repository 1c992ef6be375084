"""Ranks at the prompt of a debugger: commands to one, some and all of them; nothing runs out."""

import re
import signal
from contextlib import closing
from time import perf_counter

import pexpect
import pytest

from tests.facts import assert_tells
from tests.kernels import start_new_kernel

from .leftovers import kill_ranks, wait_until
from .listener import Listener
from .people import PATIENCE_S, ended

PROMPT = r"(?P<who>ranks? [^\r\n]*): [(]Pdb[)] "


@pytest.fixture
def cluster(shared, monkeypatch):
    """Four ranks, all there before the test, and in no debugger after it."""
    shared.enter(monkeypatch)
    yield shared.whole()
    wait_until(lambda: not stopped(shared.cluster), 10, "no rank is in the debugger any more")


def stopped(cluster):
    """Return the ranks that are in the debugger."""
    engines = cluster.topology().engines
    return {each.rank for each in engines if "debugger" in each.cell}


def prompt(person):
    """Wait for the prompt; give whom it names."""
    person.expect(PROMPT)
    return person.match["who"]


def test_all_stop_and_step_together_and_equal_answers_are_shown_once(terminal):
    person = terminal("x = 10 * rank\nbreakpoint()\ny = 7\nx + y")
    assert prompt(person) == "ranks 0-3 at In[1]:2"
    person.sendline("n")
    assert prompt(person) == "ranks 0-3 at In[1]:3"
    person.sendline("n")
    assert prompt(person) == "ranks 0-3 at In[1]:4"
    person.sendline("p y")
    prompt(person)
    assert person.before.count("7\r\n") == 1
    person.sendline("2-3 p x")
    prompt(person)
    assert all(value in person.before for value in ("[2]   20", "[3]   30"))
    assert "10" not in person.before
    person.sendline("1 x = 5")
    prompt(person)
    person.sendline("c")
    assert ended(person) == ["7", "12", "27", "37"]


def test_one_steps_while_the_others_are_held_in_a_collective(terminal, cluster):
    code = "comm.timeout_s = 3.0\nif rank == 2: breakpoint()\nz = comm.all_reduce(1.0)\nfloat(z)"
    person = terminal(code, timeout_s=4.0)
    assert prompt(person) == "rank 2 at In[1]:2"
    wait_until(lambda: "all_reduce" in cluster.explain(), 10, "the others wait")
    assert_tells(cluster.explain(), "ranks 0-1,3 wait in all_reduce", "for rank 2", "debugger")
    person.expect(pexpect.TIMEOUT, timeout=5)  # longer than both
    person.sendline("n")
    assert prompt(person) == "rank 2 at In[1]:3"
    person.sendline("n")
    assert prompt(person) == "rank 2 at In[1]:4"
    person.sendline("c")
    assert ended(person) == ["4.0"] * 4


@pytest.mark.slow
def test_meetings_are_held_too(terminal):
    code = "if rank == 2: breakpoint()\ncomm.object_barrier('x', timeout_s=1.0)\nrank"
    person = terminal(code)
    prompt(person)
    person.expect(pexpect.TIMEOUT, timeout=2.5)
    person.sendline("c")
    assert ended(person) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("how", ["q", "Ctrl-D", "Ctrl-C"])
def test_whoever_leaves_the_debugger_lets_ranks_go_on(terminal, how):
    person = terminal("for i in range(3): breakpoint()\nrank")
    prompt(person)
    {"q": lambda: person.sendline("q"), "Ctrl-D": person.sendeof, "Ctrl-C": person.sendintr}[how]()
    assert ended(person) == ["0", "1", "2", "3"]


@pytest.mark.slow
def test_two_hundred_hits_in_a_row_and_a_fast_cell_after_them(terminal, cluster):
    work = "total = 0\nfor i in range(200):\n    total += i\n"
    person = terminal(f"{work}    breakpoint()\nimport sys\n(total, sys.gettrace())")
    for _ in range(200):
        assert prompt(person) == "ranks 0-3 at In[1]:4"
        person.sendline("c")
    assert ended(person) == ["(19900,", "None)"] * 4
    assert cluster.run("import sys\nsys.gettrace()").ok


def test_a_step_of_all_is_quick(terminal):
    person = terminal("breakpoint()\n" + "x = 1\n" * 20)
    prompt(person)
    began_s = perf_counter()
    for _ in range(10):
        person.sendline("n")
        prompt(person)
    print("a step of all takes", (perf_counter() - began_s) / 10)
    person.sendline("c")
    ended(person)


def test_a_rank_that_is_killed_while_it_is_stopped_releases_the_others(terminal, cluster):
    person = terminal("if rank in (1, 2): breakpoint()\ncomm.barrier()\nrank")
    assert prompt(person).startswith("ranks 1-2")
    kill_ranks(cluster, 2)
    wait_until(lambda: stopped(cluster) == {1}, 10, "one is left")
    person.expect([PROMPT, pexpect.TIMEOUT], timeout=1)  # it may have been the one that asked
    person.sendline("1 c")
    told = ended(person)
    assert (told[2], told[0]) == ("lost", "peer_failed")


def test_healing_replaces_a_stopped_rank(terminal, cluster, in_background):
    person = terminal("if rank == 2: breakpoint()\nrank")
    prompt(person)
    healed = in_background(type(cluster).visit(cluster.name).heal, [2])
    assert ended(person)[2] == "lost"
    assert healed.result(30).replaced.keys() == {2}


def test_a_program_that_dies_leaves_them_stopped_for_another_terminal(terminal, spawn, cluster):
    person = terminal("breakpoint()\nrank")
    prompt(person)
    person.kill(signal.SIGKILL)
    other = spawn("-m", "jupyter_dist.cli", "attach", cluster.name, "--take-over")
    assert prompt(other) == "ranks 0-3 at In[1]:1"
    other.sendline("p rank * 100")
    prompt(other)
    assert "300" in other.before
    other.sendline("c")
    other.expect(pexpect.EOF)
    assert [each.value_repr for each in cluster.replay().result] == ["0", "1", "2", "3"]


@pytest.mark.slow
def test_a_second_terminal_takes_the_prompt_over_and_one_that_looks_on_gets_none(
    terminal, spawn, cluster
):
    person = terminal("breakpoint()\nrank")
    prompt(person)
    words = ("-m", "jupyter_dist.cli", "attach", cluster.name)
    watcher = spawn(*words, "--watch")
    watcher.expect("in the debugger at In")
    other = spawn(*words, "--take-over")
    assert prompt(other) == "ranks 0-3 at In[1]:1"
    other.sendline("q")
    other.expect(pexpect.EOF)
    watcher.expect(pexpect.EOF)
    assert "Pdb" not in watcher.before
    assert ended(person) == ["0", "1", "2", "3"]


class Kernel:
    """A kernel and its page, which is asked at the prompts of the debugger."""

    def __init__(self):
        self._manager, self._client = start_new_kernel()
        self.asked = []

    def run(self, code, commands=()):
        """Run a cell, and type these at its prompts; at the end of them the kernel is restarted."""
        coming = iter(commands)

        def on_question(message):
            self.asked.append(message["content"]["prompt"])
            if (command := next(coming, None)) is not None:
                self._client.input(command)
            else:
                raise KernelRestarted

        try:
            self._client.execute_interactive(
                code, timeout=PATIENCE_S, stdin_hook=on_question, output_hook=lambda _: None
            )
        except KernelRestarted:  # on other ports: those of a kernel that has ended may be taken
            self.close()
            self._manager, self._client = start_new_kernel()
            raise

    def close(self):
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


class KernelRestarted(Exception):
    """The cell will never answer."""


def test_a_restarted_kernel_shows_the_prompt_again(cluster):
    with closing(Kernel()) as kernel:
        kernel.run(f"%load_ext jupyter_dist\n%dist_attach {cluster.name} --take-over")
        with pytest.raises(KernelRestarted):
            kernel.run("%%spmd\nx = rank\nbreakpoint()\ncomm.barrier()\nx", ["n"])
        assert stopped(cluster) == {0, 1, 2, 3}
        again = f"%load_ext jupyter_dist\n%dist_attach {cluster.name}"
        kernel.run(again, ["1 x = 50", "c"])
    assert [each.value_repr for each in cluster.replay().result] == ["0", "50", "2", "3"]
    places = [prompt.partition(" at In[")[2].partition(":")[2] for prompt in kernel.asked]
    assert places == ["3: (Pdb) ", *["4: (Pdb) "] * 3]


PASSED_OVER = {
    "breakpoint()": "no terminal",
    "import pdb; pdb.set_trace()": "no terminal",
    "import os\npid = os.fork()\nif not pid: breakpoint(); os._exit(0)\nos.waitpid(pid, 0)": "fork",
}


@pytest.mark.parametrize("code", PASSED_OVER)
def test_where_no_person_can_be_asked_it_is_passed_over_and_said(cluster, code):
    listener = Listener()
    assert cluster.run(f"{code}\nrank", watcher=listener).ok
    assert_tells(listener.text[2], PASSED_OVER[code])


ODD_PLACES = {
    "a thread": "import threading\nt = threading.Thread(target=f); t.start(); t.join()",
    "a finalizer": "class A:\n    def __del__(self): f()\na = A()\ndel a",
    "an async task": "import asyncio\nasync def g(): f()\nawait asyncio.gather(g())",
    "a C callback": "import ctypes\nctypes.CFUNCTYPE(None)(f)()",
}


@pytest.mark.parametrize("place", ODD_PLACES)
def test_it_stops_in_odd_places_too(terminal, place):
    ran = (
        "ran = []\ndef f():\n    here = 6 * 7\n    if rank == 1: breakpoint()\n    ran.append(1)\n"
    )
    person = terminal(f"{ran}{ODD_PLACES[place]}\nlen(ran)")
    assert prompt(person) == "rank 1 at In[1]:4"
    person.sendline("p here")
    prompt(person)
    assert "42" in person.before
    person.sendline("c")
    assert ended(person) == ["1"] * 4


def test_a_module_is_stopped_in_and_listed(terminal, tmp_path, monkeypatch):
    (tmp_path / "own_module.py").write_text("def f(x):\n    breakpoint()\n    return x + 1\n")
    person = terminal(
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport own_module\nown_module.f(rank)"
    )
    assert prompt(person) == f"ranks 0-3 at {tmp_path}/own_module.py:2"
    person.sendline("0 w")
    prompt(person)
    assert all(frame in person.before for frame in ("In[1]:4", "own_module.py(2)f()"))
    person.sendline("c")
    assert ended(person) == ["1", "2", "3", "4"]


@pytest.fixture
def notebook(spawn, cluster):
    """A shell in a terminal that drives the cluster; types a line, or a cell for `%%spmd`."""
    person = spawn("-m", "IPython", "--simple-prompt", "--no-banner", "--quick")

    def type_in(line, cell=None):
        person.expect(r"In \[\d+\]: ")
        if cell is not None:
            line = f"get_ipython().run_cell_magic('spmd', {line!r}, {cell!r})"
        person.sendline(line)
        return person

    type_in("%load_ext jupyter_dist")
    type_in(f"%dist_attach {cluster.name} --take-over")
    yield type_in
    type_in("%dist_debug --off")


def test_cells_stop_at_a_line_where_a_condition_holds_and_on_some_ranks(notebook):
    person = notebook("--break 3 --break-rank 0,3", "x = rank\ny = 2\nz = x + y\nz")
    assert re.fullmatch(r"ranks 0,3 at In\[\d+\]:3", prompt(person))
    person.sendline("c")
    loop = "loss = 0.0\nfor i in range(6):\n    loss += i * (rank + 1)"
    person = notebook("--break-if 'loss > 4'", loop)
    assert prompt(person).endswith(":4")
    person.sendline("0 p i, loss")
    prompt(person)
    assert "(4, 6.0)" in person.before
    person.sendline("q")
    person = notebook("--break 9", loop)
    person.expect("UsageError: --break 9")


def test_a_rank_that_raises_keeps_its_frames_and_its_peers_wait(notebook, cluster):
    notebook("%dist_debug --on-error")
    code = "def f(a):\n    b = a - 2\n    return 1 / b\nif rank == 2: f(rank)\ncomm.barrier()"
    person = notebook("", code)
    assert re.fullmatch(r"rank 2 at In\[\d+\]:4", prompt(person))
    wait_until(lambda: "barrier" in cluster.explain(), 10, "the others wait")
    assert_tells(cluster.explain(), "ranks 0-1,3", "for rank 2", "debugger")
    person.sendline("p a, b")
    prompt(person)
    assert "(2, 0)" in person.before
    person.sendline("c")
    person.expect("ZeroDivisionError on rank 2")


def test_all_stop_at_the_first_call_in_which_they_differ(notebook):
    notebook("%dist_debug --on-mismatch")
    person = notebook("", "import numpy as np\ncomm.all_reduce(np.ones(3 if rank == 1 else 2))")
    assert re.fullmatch(r"ranks 0-3 at In\[\d+\]:3", prompt(person))
    person.sendline("c")
    person.expect("CollectiveMismatch on ranks 0-3")


def test_a_rank_is_stopped_while_its_cell_runs(notebook):
    notebook("--background", "import time\nx = 1\nwhile x: time.sleep(0.05)\nrank")
    person = notebook("%dist_debug 2")
    assert re.fullmatch(r"rank 2 at In\[\d+\]:4", prompt(person))
    person.sendline("x = 0")
    prompt(person)
    person.sendline("c")
    person.expect(pexpect.TIMEOUT, timeout=1)
    person.sendintr()
    person.expect("KeyboardInterrupt on ranks 0-1,3")


@pytest.mark.parametrize("how", ["job.wait()", "%dist_debug"])
def test_a_cell_in_the_background_asks_when_a_person_waits_for_it(notebook, cluster, how):
    code = "x = 7 * rank\nbreakpoint()\nx"
    person = notebook("--background --break 3 -o job", code)
    wait_until(lambda: len(stopped(cluster)) == 4, 10, "all are stopped")
    notebook(how)
    assert re.fullmatch(r"ranks 0-3 at In\[\d+\]:3", prompt(person))
    person.sendline("c")  # from the stop that was asked for with the cell
    prompt(person)
    person.sendline("3 p x")
    prompt(person)
    assert "21" in person.before, "answers stand above the next prompt"
    person.sendline("c")
    person.expect("ok on ranks 0-3|Out")


def test_there_is_nothing_to_stop_between_cells(notebook):
    notebook("%dist_debug 1").expect("no cell runs|no rank that was asked for")
