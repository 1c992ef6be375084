"""The notebook about the debugger, with a person at its prompts."""

import re
import runpy
from pathlib import Path

import nbformat
import pytest

from tests.kernels import start_new_kernel

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "10_debug_and_profile.ipynb"
TYPED = runpy.run_path(str(NOTEBOOK.parent / "debug_and_profile.py"))["TYPED"]
TIMEOUT_S = 60


@pytest.fixture
def person(tmp_path, monkeypatch):
    """Run a cell in a kernel and answer its prompts; gives the prompts, and what was shown."""
    for variable in ("JUPYTER_RUNTIME_DIR", "TMPDIR", "IPYTHONDIR"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    manager, client = start_new_kernel(cwd=str(tmp_path))

    def run(code, typed):
        prompts, shown = [], []

        def on_question(message):
            prompts.append(message["content"]["prompt"])
            client.input(typed.pop(0))

        def on_output(message):
            content = message["content"]
            data = content.get("data", {})
            shown.append(content.get("text") or data.get("text/plain") or content.get("evalue", ""))

        client.execute_interactive(
            code,
            timeout=TIMEOUT_S,
            allow_stdin=True,
            stdin_hook=on_question,
            output_hook=on_output,
        )
        return prompts, "\n".join(shown)

    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.slow
def test_each_prompt_of_the_notebook_is_answered_and_no_cell_is_lost(person):
    cells = [cell.source for cell in nbformat.read(NOTEBOOK, 4).cells if cell.cell_type == "code"]
    places, told = {}, {}
    for source in cells:
        first = next((line for line in source.splitlines() if line in TYPED), "")
        typed = list(TYPED.get(first, []))
        places[first], told[first] = person(source, typed)
        assert typed == [], f"{first}: not all of it was asked for"
    assert [re.sub(r"In\[\d+\]", "In", each) for each in places["x = 10 * rank"]] == [
        "ranks 0-3 at In:3: (Pdb) ",
        "ranks 0-3 at In:3: (Pdb) ",
        "ranks 0-3 at In:4: (Pdb) ",
        "ranks 0-3 at In:5: (Pdb) ",
        "ranks 0-3 at In:5: (Pdb) ",
    ]
    assert all(each.startswith("rank 2 at ") for each in places["loss = float(rank)"])
    assert "total 88.0" in told["x = 10 * rank"]
    assert "mean 1.5" in told["loss = float(rank)"]
    assert "(2, 0)" in told["def ratio(a):"]
    assert "ZeroDivisionError" in told["def ratio(a):"]
