"""How much a rank keeps of its cells, counted; the shell is the one of a rank."""

import errno
import inspect
import linecache
import os
import re
import sys
from pathlib import Path
from types import ModuleType

from jupyter_dist.engine.shell.cell_sources import KEPT_CELLS

MOST_FILES = KEPT_CELLS + 300


def run(shell, code, label):
    shell.execution_count = label
    shell.current_cell = code
    return shell.run_cell(code, store_history=False)


def kept_sources(shell):
    folder = shell.compile.source_dir
    known = {name for name in inspect.modulesbyfile if name.startswith(folder)}
    assert known == {name for name in linecache.cache if name.startswith(folder)}
    return len(known)


def last_traceback(shell):
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(shell.last_traceback))


def test_sources_of_old_cells_go_and_those_of_the_last_thousand_stay(shell):
    for number in range(1, 3 * KEPT_CELLS):
        run(shell, f"x = {number}", number)
        if number == 2 * KEPT_CELLS:
            code = f"def late():\n    raise ValueError({number})"
            run(shell, code, number)
    assert KEPT_CELLS <= kept_sources(shell) <= MOST_FILES
    assert KEPT_CELLS <= len(list(Path(shell.compile.source_dir).iterdir())) <= MOST_FILES
    run(shell, "late()", number + 1)
    assert f"Cell In[{2 * KEPT_CELLS}], line 2" in last_traceback(shell)
    assert f"----> 2     raise ValueError({2 * KEPT_CELLS})" in last_traceback(shell)


def test_what_an_old_cell_has_defined_keeps_its_source_as_long_as_it_lives(shell):
    run(shell, "def outer():\n    def inner():\n        1 / 0\n    return inner\nkept = outer()", 1)
    run(shell, "del outer\nclass Kept:\n    def method(self):\n        1 / 0", 2)
    run(shell, "def gone():\n    1 / 0", 3)
    run(shell, "del gone", 4)
    for number in range(5, 2 * KEPT_CELLS):
        run(shell, "pass", number)
    run(shell, "kept()", number + 1)
    assert "----> 3     1 / 0" in last_traceback(shell)
    run(shell, "Kept().method()", number + 2)
    assert "----> 4     1 / 0" in last_traceback(shell)
    left = {path.name.split("_")[1] for path in Path(shell.compile.source_dir).iterdir()}
    assert {"1", "2"} <= left
    assert "3" not in left


def test_a_traceback_looks_for_its_cell_in_no_module(shell, monkeypatch):
    asked = []

    class Module(ModuleType):
        @property
        def __file__(self):
            asked.append(self)
            return "module.py"

    run(shell, "1 / 0", 1)
    monkeypatch.setitem(sys.modules, "asked", Module("asked"))
    run(shell, "def late():\n    1 / 0\nlate()", 2)
    assert "----> 2     1 / 0" in last_traceback(shell)
    assert asked == []


def test_a_traceback_without_source_still_names_the_cell(shell):
    run(shell, "def late():\n    1 / 0", 7)
    (path,) = Path(shell.compile.source_dir).glob("In_7_*")
    path.unlink()
    del linecache.cache[str(path)]
    run(shell, "late()", 8)
    assert "Cell In[7]" in last_traceback(shell)
    assert "ZeroDivisionError" in last_traceback(shell)


def test_a_cell_run_again_and_again_is_kept_once(shell):
    for _ in range(50):
        run(shell, "def f():\n    return 1", 3)
    assert kept_sources(shell) == 1


def test_nothing_is_kept_of_what_cells_print_and_show(shell, shown, capsys):
    for number in range(1, 20):
        run(shell, f"print('said')\nprint('more', file=__import__('sys').stderr)\n{number}", number)
    assert len(shown) == 19
    assert capsys.readouterr().out.count("said") == 19
    history = shell.history_manager
    assert not getattr(history, "outputs", ())  # IPython 8 has none
    assert not history.output_hist_reprs


def test_values_of_the_last_thousand_cells_stay_under_their_names(shell, recwarn):
    for number in range(1, 1300):
        run(shell, f"'value {number}'", number)
    found = run(shell, "[_, __, Out[1299], _1290]", 1300).result
    assert found == [f"value {number}" for number in (1299, 1298, 1299, 1290)]
    assert len(shell.user_ns["Out"]) <= KEPT_CELLS
    assert "cache limit" in str(recwarn.pop(UserWarning).message)


def test_who_wants_to_know_hears_of_the_file_of_a_cell_before_the_cell_begins(shell):
    heard = []
    shell.compile.on_file = lambda path: heard.append((path, "ran" in shell.user_ns))
    run(shell, "ran = 1", 7)
    ((path, has_run),) = heard
    assert (Path(path).read_text(), has_run) == ("ran = 1\n", False)
    shell.compile.on_file = None


def test_a_rank_that_writes_a_source_again_leaves_what_a_debugger_reads_whole(shell):
    write = shell.compile.get_code_name
    path = Path(write("x = 1", "x = 1\n", 7))
    with path.open() as opened:
        assert write("x = 1", "x = 1\n", 7) == str(path)
        os.truncate(path, 0)
        assert opened.read() == "x = 1\n"
    assert list(path.parent.iterdir()) == [path]


def test_a_source_that_cannot_be_written_leaves_nothing(shell, monkeypatch):
    def refuse(*_arguments):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "write", refuse)
    path = Path(shell.compile.get_code_name("x = 1", "x = 1\n", 7))
    monkeypatch.undo()
    assert list(path.parent.iterdir()) == []
