"""Everything a rank writes arrives, whole and in order, whoever wrote it."""

import itertools

import pytest

from jupyter_dist.views.cell.cell_output import CellOutputView
from jupyter_dist.views.cell.terminal import Terminal
from jupyter_dist.views.outputs.ansi import strip_ansi

from .listener import Listener


def said(cluster, code, ranks=0):
    result = cluster.run(code, ranks=ranks)[0]
    assert result.status == "ok", str(result.error)
    return result.stdout


@pytest.mark.parametrize(
    "code",
    [
        "import os; _ = os.write(1, b'low\\n')",
        "import os; _ = os.system('echo low')",
        "import subprocess; _ = subprocess.run(['echo', 'low'])",
        "import ctypes; _ = ctypes.CDLL(None).write(1, b'low\\n', 4)",
        "import sys; _ = sys.__stdout__.write('low\\n')",
        "import sys; _ = sys.stdout.buffer.write(b'low\\n')",
    ],
)
def test_output_that_does_not_come_from_print_arrives(four, code):
    assert [rank.stdout for rank in four.run(code)] == ["low\n"] * 4


def test_low_level_errors_arrive_as_stderr(four):
    result = four.run("import os; _ = os.system('echo low >&2')")
    assert [(rank.stdout, rank.stderr) for rank in result] == [("", "low\n")] * 4


def test_print_and_low_level_writes_keep_their_order(four):
    code = (
        "import os, subprocess\n"
        "for k in range(50):\n"
        "    print('a', k)\n"
        "    os.write(1, b'b %d\\n' % k)\n"
        "    if k % 25 == 0: subprocess.run(['echo', f'c {k}'])\n"
    )
    expected = "".join(f"a {k}\nb {k}\n" + (f"c {k}\n" if k % 25 == 0 else "") for k in range(50))
    assert [rank.stdout for rank in four.run(code)] == [expected] * 4


def test_a_hundred_thousand_lines_of_four_ranks_arrive_complete(four, within):
    with within(20):
        result = four.run("for k in range(25_000): print('line', k, 'of', rank)")
    for rank in result:
        lines = rank.stdout.splitlines()
        assert len(lines) == 25_000
        assert lines[0] == f"line 0 of {rank.rank}"
        assert lines[-1] == f"line 24999 of {rank.rank}"
        assert all(line == f"line {k} of {rank.rank}" for k, line in enumerate(lines))


@pytest.mark.parametrize(
    "text", ["äöü € 漢字 🎉 e\u0301", "\u202eright to left", "tab\tbell\a", "nul\0"]
)
def test_any_text_survives(four, text):
    assert said(four, f"print({text!r})") == f"{text}\n"


def test_a_very_long_line_arrives_whole(four):
    result = four.run("print('x' * 3_000_000)")
    assert [len(rank.stdout) for rank in result] == [3_000_001] * 4


def test_text_without_a_line_end_arrives(four):
    assert said(four, "print('no end', end='')") == "no end"
    assert said(four, "import sys; _ = sys.stdout.write('none either')") == "none either"
    assert said(four, "import os; _ = os.write(1, b'nor here')") == "nor here"


def test_a_half_line_is_seen_while_the_cell_runs(four, in_background):
    listener = Listener()
    code = "import os\nprint('half', end='', flush=True)\nwhile not os.path.exists({!r}): pass"
    running = in_background(four.run, code.format("/nowhere"), watcher=listener)
    listener.wait_for("half", ranks=range(4), within_s=3)
    assert not running.done()
    four.interrupt()
    assert {rank.status for rank in running.result(10)} == {"interrupted"}


def test_lines_are_seen_while_the_cell_runs(four, in_background):
    listener = Listener()
    code = "import time\nprint('early')\ntime.sleep(60)"
    running = in_background(four.run, code, watcher=listener)
    listener.wait_for("early\n", ranks=range(4), within_s=2)
    assert not running.done()
    four.interrupt()
    running.result(10)


def test_output_of_one_cell_never_shows_in_the_next(four):
    for number in range(20):
        result = four.run(f"import os\nprint({number}, end='')\n_ = os.write(2, b'{number}')")
        assert [(rank.stdout, rank.stderr) for rank in result] == [(str(number), str(number))] * 4


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.stdout.close()",
        "import sys\nsys.stderr.close(); sys.stdout.close()",
        "import os\nos.close(1)",
        "import os\nos.close(1); os.close(2)",
        "import sys\nsys.stdout = None",
        "import sys, io\nsys.stdout = io.StringIO()",
        "import sys\ndel sys.stdout",
        "import sys\nsys.stdout.detach()",
        "import sys\nsys.stdout.buffer.close()",
    ],
)
def test_a_cell_that_takes_stdout_away_harms_only_itself(four, code):
    first = four.run(code)
    assert {rank.status for rank in first} <= {"ok", "raised"}
    second = four.run("import os\nprint('fine')\n_ = os.write(1, b'low')\n_ = os.write(2, b'err')")
    assert [(rank.status, rank.stdout, rank.stderr) for rank in second] == [
        ("ok", "fine\nlow", "err")
    ] * 4


def test_a_descriptor_opened_where_stdout_was_is_not_written_to(four, tmp_path):
    target = tmp_path / "data"
    code = (
        "import os\n"
        "os.close(1)\n"
        f"f = os.open({str(target)!r}, os.O_WRONLY | os.O_CREAT)\n"
        "_ = os.write(2, str(f).encode())"
    )
    assert four.run(code, ranks=0)[0].stderr == "1"
    assert said(four, "print('in order')") == "in order\n"
    assert target.read_text() == ""


def test_a_warning_names_the_cells_line(four):
    result = four.run("import warnings\nwarnings.warn('careful')", ranks=0, label=9)[0]
    assert "careful" in result.stderr
    assert result.stderr.startswith("In[9]:2: UserWarning: careful")


BLOCKS = {
    "print": "print(f'┌───┐\\n│ {rank} │\\n└───┘')",
    "display": (
        "class Box:\n    def __repr__(self): return f'┌───┐\\n│ {rank} │\\n└───┘'\ndisplay(Box())"
    ),
    "pieces": "import sys\nsys.stdout.write(f'box:\\n┌───┐\\n│ {rank} │\\n└───')\nprint('┘')",
    "rich": (
        "from rich.table import Table\nfrom rich.console import Console\n"
        "t = Table('a')\nt.add_row(str(rank))\nConsole(width=9).print(t)"
    ),
}


@pytest.mark.parametrize("how", BLOCKS)
def test_what_is_printed_at_once_is_shown_in_one_piece_for_each_rank(four, how):
    written = []
    view = CellOutputView(world_size=4, display=Terminal(written.append, is_tty=False))
    code = f"for step in range(2):\n    print('step', step)\n{BLOCKS[how]}\nprint('end')"
    view.finish(four.run(code, watcher=view))
    lines = "".join(written).splitlines()
    labels = [line.partition(" ")[0] for line in lines if "step" not in line and "end" not in line]
    together = [label for label, _ in itertools.groupby(labels)]
    assert sorted(together) == ["[0]", "[1]", "[2]", "[3]"], lines
    assert [line.split()[0] for line in lines if "step" in line] == ["[0-3]"] * 2


THREAD = """\
import threading
def work():
    1/0
t = threading.Thread(target=work)
t.start(); t.join()
"""
STACK_OF_A_CALL = """\
import sys, types
trace, frame = None, sys._getframe()
while frame is not None:
    trace = types.TracebackType(trace, frame, frame.f_lasti, frame.f_lineno); frame = frame.f_back
raise ValueError('now') from RuntimeError('then').with_traceback(trace)
"""
SAID_OF_CELLS = {
    "error of a thread": (THREAD, "In[{n}]:3, in work"),
    "traceback": (
        "import traceback\ntry:\n    1/0\nexcept Exception:\n    traceback.print_exc()",
        "In[{n}]:3",
    ),
    "log": (
        "import logging\nlogging.basicConfig(format='%(pathname)s:%(lineno)d', force=True)\nlogging.error('x')",
        "In[{n}]:3",
    ),
    "group": (
        "def f():\n    raise ExceptionGroup('several', [ValueError(1), KeyError(2)])\nf()",
        "In[{n}]",
    ),
    "printed": (
        "import traceback\ntry:\n    1/0\nexcept Exception:\n    print(traceback.format_exc())",
        "In[{n}]:3",
    ),
    "stack": (
        "import traceback\ndef f():\n    raise ValueError(':\\n' + ''.join(traceback.format_stack()))\nf()",
        "In[{n}]:4, in <module>",
    ),
    "error without lines before the cell": (STACK_OF_A_CALL, "In[{n}], line 5"),
    "text": ("def f(): pass\nraise ValueError(f.__code__.co_filename + ':7')", "In[{n}]:7"),
}


@pytest.mark.parametrize("case", SAID_OF_CELLS)
def test_the_file_of_a_cell_is_named_as_the_cell(four, case):
    code, expected = SAID_OF_CELLS[case]
    number = 40 + list(SAID_OF_CELLS).index(case)
    result = four.run(code, ranks=0, label=number)[0]
    error = result.error
    trace = "\n".join((error.evalue, *error.traceback)) if error else ""
    said = result.stdout + result.stderr + trace
    assert expected.format(n=number) in strip_ansi(said)
    assert f"In_{number}_" not in said
    assert "runpy" not in said
    assert "/engine/" not in said


def test_what_a_thread_prints_after_its_cell_is_not_lost(four):
    code = (
        "import threading\n"
        "go = threading.Event()\n"
        "t = threading.Thread(target=lambda: (go.wait(60), print('late')))\n"
        "t.start()"
    )
    four.run(code, ranks=0)
    assert said(four, "go.set(); t.join()") == "late\n"
