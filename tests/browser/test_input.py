"""What ranks ask is asked and answered in the page of a real JupyterLab."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .lab import LabNotebook, a_notebook

pytestmark = pytest.mark.browser

OpenNotebook = Callable[..., LabNotebook]
PROMPT = ".jp-Stdin:not(:has(input[disabled])) .jp-Stdin-prompt"
ASK = """%%spmd
import getpass
print("ready", flush=True)
name = input("name? ")
key = getpass.getpass("key: ") if rank == 0 else ""
f"{name} {len(key)}\""""


def answer(page: Any, prompt: str, text: str) -> None:
    """Type an answer where the page asks this."""
    page.wait_for_selector(f".jp-Stdin-prompt:has-text('{prompt}')", state="visible")
    box = page.locator(".jp-Stdin-input").last
    box.fill(text)
    box.press("Enter")


def test_what_ranks_ask_is_asked_in_the_page(open_notebook: OpenNotebook, pictures: Path) -> None:
    notebook = open_notebook(
        a_notebook(
            "%load_ext jupyter_dist",
            "%dist_start -n 2",
            ASK,
            "%%spmd\ninput('again? ')",
            "%%spmd\nrank + 40",
            "%%spmd --background --ranks 1 -o job\ninput('later? ')",
            "job.wait()",
            "%dist_stop",
        ),
        "input",
    )
    page = notebook.page
    for cell in (0, 1):
        notebook.run(cell)
    notebook.start(2)
    page.wait_for_selector(".jp-Stdin-prompt:has-text('name?')")
    notebook.wait_for_text(2, "ready")
    notebook.wait_for_text(2, "wait to ask" if "ranks" in notebook.text(2) else "waits to ask")
    notebook.show(2)
    page.screenshot(path=pictures / "input.png")
    first = 0 if "rank 0: name?" in page.inner_text(".jp-Stdin-prompt") else 1
    answer(page, f"rank {first}: name?", "Ada")
    if first == 0:
        answer(page, "rank 1: name?", "Bob")
        answer(page, "rank 0: key:", "secret")
    else:
        answer(page, "rank 0: name?", "Bob")
        answer(page, "rank 0: key:", "secret")
    notebook.wait()
    names = ["Ada", "Bob"] if first == 0 else ["Bob", "Ada"]
    for name, length in zip(names, (6, 0), strict=True):
        assert f"{name} {length}" in notebook.text(2)
    assert "secret" not in notebook.text(2)
    page.screenshot(path=pictures / "input_answered.png")

    notebook.start(3)
    page.wait_for_selector(".jp-Stdin-prompt:has-text('again?')")
    notebook.command("notebook:interrupt-kernel")
    notebook.wait()
    assert "KeyboardInterrupt" in notebook.text(3)
    assert "41" in notebook.run(4)
    notebook.run(5)
    notebook.wait_for_text(5, "rank 1 waits for input; wait()")
    notebook.start(6)
    page.wait_for_selector(".jp-Stdin-prompt:has-text('rank 1: later?')")
    notebook.show(5)
    page.screenshot(path=pictures / "input_of_a_background_cell.png")
    answer(page, "rank 1: later?", "Eve")
    notebook.wait()
    notebook.wait_for_text(5, "Out[1]: 'Eve'")
    assert "waits for input" not in notebook.text(5)
    notebook.run(7)
