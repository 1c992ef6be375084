"""What ranks ask a person: `input()` and its like, in a terminal, and where none can be asked."""

import re

import pexpect
import pytest

from jupyter_dist import Cluster
from tests.facts import assert_tells
from tests.matrix import only

from .leftovers import kill_ranks, wait_until
from .listener import Listener
from .people import PROGRAM, ended

IN_BACKGROUND = """
from jupyter_dist import Cluster
cluster = Cluster.visit({name!r})
cell = cluster.run_in_background({code!r}, one_answer=True)
print("BEGUN")
input()
try:
    print("ENDED", *[each.value_repr for each in cell.wait()])
except Exception as problem:
    print("ENDED", problem)
"""
ASK = "answer = input('name? ') if rank in (1, 3) else None\nanswer"


@pytest.fixture
def cluster(shared, monkeypatch):
    """Four ranks, all there before the test, and idle after it."""
    shared.enter(monkeypatch)
    yield shared.whole()
    wait_until(lambda: not waiting(shared.cluster), 5, "no rank asks any more")


def waiting(cluster):
    """Return what ranks wait for, by rank."""
    asked = {each.rank: re.search(r"\((.*)\)", each.cell) for each in cluster.topology().engines}
    return {rank: found[1] for rank, found in asked.items() if found}


def test_ranks_ask_one_after_the_other_and_are_named(terminal, cluster):
    first = "import time\nif rank == 1: print('hello')\nif rank == 3: time.sleep(0.3)\n"
    person = terminal(f"{first}{ASK}")
    person.expect("hello")
    person.expect("rank 1: name[?] ")
    wait_until(lambda: len(waiting(cluster)) == 2, 5, "both ask")
    assert waiting(cluster) == {1: "waits for input", 3: "waits to ask for input"}
    wait_until(lambda: "rank 3" in cluster.explain(), 5, "both are told of")
    assert_tells(cluster.explain(), "rank 1 waits for input", "rank 3 waits to ask for input")
    assert "waits for input" in str(cluster.status())
    person.sendline("Ada")
    person.expect("rank 3: name[?] ")
    person.sendline("")
    assert ended(person) == ["ok", "'Ada'", "ok", "''"]


def test_a_password_is_not_shown(terminal):
    person = terminal("import getpass\nlen(getpass.getpass('key: ')) if rank == 2 else None")
    person.expect("rank 2: key: ")
    person.waitnoecho()
    person.sendline("secret")
    assert ended(person) == ["ok", "ok", "6", "ok"]
    assert "secret" not in person.before


def test_libraries_that_read_a_line_ask_too(terminal):
    person = terminal("import sys\nsys.stdin.readline() if rank == 1 else rank")
    person.expect("rank 1: ")
    person.sendline("typed")
    assert ended(person) == ["0", r"'typed\n'", "2", "3"]


def test_the_end_of_input_is_an_end_of_file(terminal):
    person = terminal("import sys\n(sys.stdin.readline(), input()) if rank == 0 else None")
    for _ in range(2):
        person.expect("rank 0: ")
        person.sendeof()
    assert ended(person) == ["raised", *["ok"] * 3]


def test_one_answer_can_be_for_all(terminal):
    code = "import time\ntime.sleep(0.1 * rank)\nfirst = input('path? ')\nfirst + input('name? ' if rank else 'rank 0? ')"
    person = terminal(code, one_answer=True)
    person.expect("all ranks: path[?] ")
    person.sendline("/d/")
    for _ in range(2):
        person.expect("all ranks: (name|rank 0)[?] ")
        person.sendline(person.match[1][0])
    assert ended(person) == ["'/d/r'", *["'/d/n'"] * 3]


@pytest.mark.parametrize(
    "who", only(["the person"], ["the person", "another client", "the time limit"])
)
def test_an_interrupt_ends_the_question_on_all(terminal, cluster, who):
    options = {"timeout_s": 3.0} if who == "the time limit" else {}
    person = terminal("input('name? ')", **options)
    person.expect("name[?] ")
    wait_until(lambda: len(waiting(cluster)) == 4, 5, "all ask")
    if who == "the person":
        person.sendintr()
    elif who == "another client":
        assert cluster.interrupt() == (0, 1, 2, 3)
    status = "timed_out" if who == "the time limit" else "interrupted"
    assert ended(person) == [status] * 4


def test_an_interrupt_just_before_the_wait_for_the_person_ends_the_question(spawn, cluster):
    # The main thread's last look for signals is past: another thread takes the signal.
    begun = (
        "builtins.input = lambda prompt: (mask(signal.SIG_BLOCK, {signal.SIGINT}), ask(prompt))[1]"
    )
    names = "import builtins, signal\nask, mask = input, signal.pthread_sigmask\n"
    program = PROGRAM.format(name=cluster.name, code="input('name? ')", options={})
    person = spawn("-c", names + begun + program)
    person.expect("name[?] ")
    wait_until(lambda: len(waiting(cluster)) == 4, 5, "all ask")
    person.sendintr()
    assert ended(person) == ["interrupted"] * 4


def test_who_asks_again_after_an_interrupt_is_refused(terminal, cluster):
    stubborn = "try: input('one? ')\n    except KeyboardInterrupt: input('two? ')"
    person = terminal(f"if rank == 1:\n    {stubborn}\nrank")
    person.expect("rank 1: one[?] ")
    person.sendintr()
    assert ended(person) == ["0", "raised", "2", "3"]
    assert "interrupted" in cluster.replay().result[1].error.evalue


def test_a_rank_that_dies_while_it_asks_makes_room_for_the_next(terminal, cluster):
    person = terminal(ASK.replace("input", "0 or input"))
    person.expect("rank ([13]): name[?] ")
    first = int(person.match[1])
    wait_until(lambda: len(waiting(cluster)) == 2, 5, "both ask")
    kill_ranks(cluster, first)
    person.expect(f"rank {4 - first}: name[?] ")
    person.sendline("Bob")
    told = ended(person)
    assert (told[first], told[4 - first]) == ("lost", "'Bob'")


def test_healing_waits_for_the_answer(terminal, cluster, in_background):
    kill_ranks(cluster, 0)
    wait_until(lambda: cluster.status().ranks[0] == "lost", 10, "it is lost")
    person = terminal("input('name? ') if rank == 3 else None", ranks=[2, 3])
    person.expect("rank 3: name[?] ")
    stages = []
    healed = in_background(Cluster.visit(cluster.name).heal, on_stage=stages.append)
    wait_until(lambda: stages, 10, "it is told what healing waits for")
    assert waiting(cluster) == {3: "waits for input"}
    person.sendline("Eve")
    assert ended(person) == ["ok", "'Eve'"]
    assert healed.result(30).replaced.keys() == {0}


def test_others_that_wait_for_a_rank_are_told_that_it_waits_for_a_person(terminal, cluster):
    person = terminal("if rank == 2: input('go on? ')\ncomm.barrier()")
    person.expect("rank 2: go on[?] ")

    def verdict():
        told = cluster.explain()
        return told if "barrier" in told else ""

    wait_until(verdict, 15, "someone waits in the barrier")
    assert_tells(verdict(), "ranks 0-1,3 wait", "rank 2 has not called", "waits for input")
    person.sendline()
    assert ended(person) == ["ok"] * 4


def test_a_program_that_dies_leaves_no_rank_waiting(terminal, cluster):
    person = terminal("input('name? ')")
    person.expect("name[?] ")
    person.close(force=True)
    wait_until(lambda: not cluster.outputs()[-1].is_running, 10, "the cell ends")
    for rank in cluster.replay().result:
        assert rank.error.ename == "StdinNotImplementedError"
        assert_tells(rank.error.evalue, "is not there any more", "%dist_push")


def test_another_terminal_takes_the_question_over(terminal, spawn, cluster):
    person = terminal("input('name? ') if rank == 1 else None")
    person.expect("rank 1: name[?] ")
    words = ("-m", "jupyter_dist.cli", "attach", cluster.name)
    spawn(*words, "--watch").expect(pexpect.TIMEOUT, timeout=1)
    assert waiting(cluster) == {1: "waits for input"}
    other = spawn(*words, "--take-over")
    other.expect("rank 1: name[?] ")
    other.sendline("Zoe")
    other.expect("Zoe")
    other.expect(pexpect.EOF)
    assert ended(person) == ["ok", "'Zoe'", "ok", "ok"]
    again = spawn(*words)
    again.expect(f"no cell runs on {cluster.name}")


CALLS = {
    "input('a')": "input('a')",
    "import getpass; getpass.getpass('b')": "getpass('b')",
    "import sys; sys.stdin.readline()": "readline",
}


@pytest.mark.parametrize("code", CALLS)
def test_where_there_is_no_terminal_it_is_an_error(cluster, code):
    for rank in cluster.run(code):
        assert rank.error.ename == "StdinNotImplementedError"
        assert_tells(rank.error.evalue, CALLS[code], "no terminal", "%dist_push")
    assert cluster.run("rank")[3].value_repr == "3"


def test_a_cell_in_the_background_asks_when_its_program_waits_for_it(spawn, cluster):
    person = spawn("-c", IN_BACKGROUND.format(name=cluster.name, code=ASK))
    person.expect("BEGUN")
    wait_until(lambda: len(waiting(cluster)) == 2, 5, "both ask")
    person.sendline()
    person.expect("all ranks: name[?] ")
    person.sendline("Ada")
    assert ended(person) == ["None", "'Ada'", "None", "'Ada'"]


def test_a_cell_in_the_background_that_is_interrupted_asks_no_longer(spawn, cluster):
    person = spawn("-c", IN_BACKGROUND.format(name=cluster.name, code="input('name? ')"))
    person.expect("BEGUN")
    person.sendline()
    person.expect("all ranks: name[?] ")
    cluster.interrupt()
    assert "interrupted" in " ".join(ended(person))


def test_a_program_without_a_terminal_and_what_is_no_cell_do_not_ask(cluster):
    cell = cluster.run_in_background("input()")
    wait_until(lambda: cell.is_done, 10, "it ends")
    assert "no terminal" in cell.result[0].error.evalue
    with pytest.raises(Exception, match="only a cell"):
        cluster.pull("input()")


def test_children_and_threads_do_not_wait_for_ever(cluster):
    listener = Listener()
    code = (
        "import os, threading\n"
        "def ask():\n"
        "    try: input()\n"
        "    except NotImplementedError as problem: os.write(1, f'{problem}\\n'.encode())\n"
        "child = os.fork()\n"
        "if not child: ask(); os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "thread = threading.Thread(target=ask); thread.start(); thread.join()"
    )
    assert cluster.run(code, watcher=listener).ok
    for why in ("fork", "no terminal"):
        assert_tells(listener.text[2], why)


def test_what_else_reads_standard_input_finds_its_end(cluster):
    code = "import sys\n[*sys.stdin], sys.stdin.read(), sys.stdin.isatty()"
    assert cluster.run(code)[0].value_repr == "([], '', False)"


def test_a_kernel_asks_its_front_end_if_that_takes_input(kernel):
    asks = "%%spmd\nname = input('name? ') if rank == 2 else 'none'\nprint(name)"
    assert "rank 2: name? " in kernel(asks, answer="Ada")
    told = kernel("%%spmd\nprint(name)\nassert rank != 2, name.upper()")
    assert "ADA" in told
    assert_tells(kernel(asks), "takes no input", "%dist_push")
