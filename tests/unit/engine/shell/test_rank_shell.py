"""The rank's shell inside the test process: made once, as in a zygote."""

import re
import sys
from functools import partial
from pathlib import Path

import pytest
from pygments.lexer import RegexLexerMeta

from jupyter_dist.model.hosts.rank import parse_ranks


def run(shell, code, label=3):
    shell.execution_count = label
    shell.current_cell = code
    return shell.run_cell(code, store_history=False)


def test_the_value_of_the_last_expression_is_shown(shell, shown):
    run(shell, "1 + 1")
    assert [(output.kind, output.data["text/plain"]) for output in shown] == [("value", "2")]


@pytest.mark.parametrize("code", ["x = 1", "None", "1 + 1;", "1;  # quiet"])
def test_a_cell_without_a_value_shows_nothing(shell, shown, code):
    run(shell, code)
    assert shown == []


def test_display_hands_the_bundle_on_with_bytes_as_text(shell, shown):
    run(shell, "from IPython.display import display\ndisplay({'image/png': b'\\x89PNG'}, raw=True)")
    (output,) = shown
    assert (output.kind, output.data) == ("display", {"image/png": "iVBORw=="})


def test_a_display_can_be_updated_by_its_id(shell, shown):
    run(
        shell,
        "from IPython.display import display\n"
        "handle = display('one', display_id='x')\n"
        "handle.update('two')",
    )
    assert [(output.kind, output.display_id) for output in shown] == [
        ("display", "x"),
        ("update_display", "x"),
    ]


def test_clear_output_is_handed_on(shell, shown):
    run(shell, "from IPython.display import clear_output\nclear_output(wait=True)")
    assert [output.kind for output in shown] == ["clear_output"]


def test_a_traceback_is_kept_instead_of_printed(shell, capsys):
    result = run(shell, "def f():\n    1 / 0\nf()")
    assert isinstance(result.error_in_exec, ZeroDivisionError)
    assert "ZeroDivisionError" in shell.last_traceback[-1]
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(shell.last_traceback))
    assert "----> 2     1 / 0" in plain
    assert capsys.readouterr().out == ""


def test_a_usage_error_of_a_magic_is_kept_instead_of_printed(shell, capsys):
    result = run(shell, "%no_such_magic")
    assert result.error_in_exec is not None
    assert "no_such_magic" in shell.last_traceback[0]
    assert capsys.readouterr() == ("", "")


def test_a_cell_has_a_file_that_a_debugger_can_open(shell, tmp_path):
    run(shell, "%time here = 1\nimport inspect\nname = inspect.currentframe().f_code.co_filename")
    source = Path(shell.user_ns["name"])
    assert source.parent == tmp_path
    assert source.name.startswith("In_3_")
    assert "get_ipython().run_line_magic('time'" in source.read_text()


def test_only_one_rank_of_a_host_writes_the_file(shell, shown, tmp_path):
    shell.tell_where(shown.append, str(tmp_path), writes_sources=False)
    run(shell, "1")
    assert list(tmp_path.iterdir()) == []


def test_a_cell_runs_even_when_its_file_cannot_be_written(shell, shown, tmp_path):
    shell.tell_where(shown.append, str(tmp_path / "missing"), writes_sources=True)
    assert run(shell, "x = 5").success
    assert shell.user_ns["x"] == 5


def test_different_cells_with_the_same_number_have_different_files(shell):
    names = {shell.compile.get_code_name(code, code, 1) for code in ("a", "b", "a")}
    assert len(names) == 2


def test_the_code_of_a_cell_is_known_by_its_file(shell):
    run(shell, "import sys\nname = sys._getframe().f_code.co_filename", label=7)
    assert shell.name_cell(shell.user_ns["name"]) == "In[7]"


def test_a_function_keeps_the_number_of_the_cell_that_has_defined_it(shell):
    run(shell, "import sys\ndef f():\n    return sys._getframe().f_code.co_filename", label=7)
    run(shell, "name = f()", label=8)
    assert shell.name_cell(shell.user_ns["name"]) == "In[7]"


def test_other_code_is_no_cell(shell, tmp_path):
    for name in (__file__, "<string>", str(tmp_path / "train.py"), "/elsewhere/In_3_abc.py"):
        assert shell.name_cell(name) == ""


@pytest.mark.parametrize("code", ["exit()", "quit()", "raise SystemExit(3)"])
def test_a_cell_cannot_end_the_rank(shell, code):
    with pytest.warns(UserWarning, match="To exit"):
        result = run(shell, code)
    assert isinstance(result.error_in_exec, SystemExit)


def test_top_level_await_works(shell):
    run(shell, "import asyncio\nx = await asyncio.sleep(0, result=8)")
    assert shell.user_ns["x"] == 8


def test_there_is_no_history_to_write(shell):
    assert not shell.history_manager.enabled


def test_a_traceback_ends_with_users_code_where_a_framework_has_called_us(shell):
    space = {"__name__": "jax._src.pjit", "launch": partial(parse_ranks, "x", 4)}
    exec(compile("def inner():\n    launch()\ndef jit():\n    inner()", "pjit.py", "exec"), space)
    shell.user_ns["jit"] = space["jit"]
    run(shell, "y = 1\njit()")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(shell.last_traceback))
    assert "----> 2 jit()" in plain
    assert "pjit.py" not in plain


HANDLED = """\
def wait():
    try:
        raise RuntimeError("peer gone")
    finally:
        raise KeyboardInterrupt
"""


@pytest.mark.parametrize(("module", "is_shown"), [("jax._src.pxla", False), ("train", True)])
def test_an_interrupt_tells_of_no_error_that_a_framework_has_kept_to_itself(
    shell, module, is_shown
):
    space = {"__name__": module}
    exec(compile(HANDLED, "waits.py", "exec"), space)
    shell.user_ns["wait"] = space["wait"]
    result = run(shell, "wait()")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert ("peer gone" in "\n".join(shell.last_traceback)) == is_shown


def test_a_reset_leaves_a_rank_what_it_has_from_us(shell, monkeypatch):
    monkeypatch.setattr(shell, "own_names", {"rank": 3})
    shell.push({"mine": 1})
    shell.reset(new_session=False)
    assert shell.user_ns["rank"] == 3
    assert "mine" not in shell.user_ns
    assert "rank" in shell.user_ns_hidden


def test_store_keeps_values_beyond_the_shell_for_each_rank_its_own(shell, tmp_path, capsys):
    pytest.importorskip(
        "IPython.external.pickleshare", reason="%store of IPython 8 needs a package"
    )
    shell.load_store(str(tmp_path / "kept"))
    try:
        shell.own_names = {"rank": 1}
        assert run(shell, "kept = {'lr': 0.1}\n%store kept").success
        shell.own_names = {"rank": 2}
        run(shell, "kept = 2\n%store kept\n%cd -q /")
        shell.own_names = {"rank": 1}
        run(shell, "del kept\n%store -r kept")
        assert shell.user_ns["kept"] == {"lr": 0.1}
    finally:
        del shell.own_names
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    named = {name for name in files if name.startswith("kept")}
    assert named == {f"kept/rank-{rank}/autorestore/kept" for rank in (1, 2)}
    assert "Stored 'kept' (dict)" in capsys.readouterr().out
    run(shell, "%load_ext storemagic")
    assert "already loaded" in capsys.readouterr().out


def test_no_prompt_is_set_that_programs_take_for_a_person(made, monkeypatch):
    monkeypatch.delattr(sys, "ps1", raising=False)
    made.init_prompts()
    assert not hasattr(sys, "ps1")


def test_an_error_to_warm_up_with_leaves_nothing_to_be_seen(shell, shown, capsys):
    before = vars(sys).get("last_value")
    shell.warm_up_errors()
    assert (shown, shell.last_traceback, capsys.readouterr()) == ([], (), ("", ""))
    assert vars(sys).get("last_value") is before


def test_after_that_no_error_compiles_a_grammar(shell, shown, monkeypatch):
    shell.warm_up_errors()
    compiled = []
    monkeypatch.setattr(RegexLexerMeta, "process_tokendef", lambda cls, *_: compiled.append(cls))
    run(shell, "1/0")
    assert "\x1b[" in "".join(shell.last_traceback)
    assert compiled == []
