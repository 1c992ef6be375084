"""Pages that a reader works through: their cells, commands and files, and what the pages show."""

import difflib
import doctest
import os
import re
import shlex
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import NamedTuple

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from tests.kernels import with_files

TIMEOUT_S = 100
STEP = re.compile(
    r"(?:^<!-- press ■ at: (?P<pressed_at>.+) -->\n)?"
    r"^```(?P<language>python|bash)\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<shown>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
ANSI = re.compile(r"\x1b\[[\d;]*m")
MEASURED = re.compile(
    r"\d[\d.]*( of [\d.]+)? (s|ms|B|KiB|MiB|GiB)\b|\d+(\.\d+){2,}|[▁▂▃▄▅▆▇█]+|pid \d+"
)
"""What is another number on another machine."""
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Step(NamedTuple):
    """A cell, a command or a file of a page, and what the page shows below it."""

    code: str
    shown: str
    is_command: bool
    pressed_at: str
    """The words at which a reader presses ■."""

    @property
    def file_name(self):
        """The file that the reader saves this as, if a comment in its first line names one."""
        named = re.match(r"# (\w+\.py)\n", self.code)
        return named[1] if named else ""


def read_steps(page):
    """Read what a reader types, from top to bottom."""
    text = page.read_text()
    steps = [
        Step(
            found["code"].rstrip("\n"),
            found["shown"] or "",
            found["language"] == "bash",
            found["pressed_at"] or "",
        )
        for found in STEP.finditer(text)
    ]
    assert len(steps) == len(re.findall("^```(?:python|bash)$", text, re.MULTILINE))
    return steps


class Reader(NotebookClient):
    """Types cells into a kernel, and presses ■ when one says what it waits for."""

    pressed_at = ""

    def process_message(self, message, cell, cell_index):
        if self.pressed_at and self.pressed_at in str(message["content"].get("data")):
            self.pressed_at = ""
            os.kill(self.km.provisioner.pid, signal.SIGINT)
        return super().process_message(message, cell, cell_index)

    def type(self, step):
        """Execute a cell; gives what stands below it in the end."""
        self.pressed_at = step.pressed_at
        cell = new_code_cell(step.code)
        self.nb.cells.append(cell)
        self.execute_cell(cell, len(self.nb.cells) - 1, store_history=True)
        assert not self.pressed_at, f"it never said {step.pressed_at}"
        return "\n".join(map(text_of, cell.outputs))


@contextmanager
def reader_in(folder):
    """Open an empty notebook in this folder."""
    reader = Reader(
        new_notebook(),
        timeout=TIMEOUT_S,
        allow_errors=True,
        store_widget_state=False,
        config=with_files(),
        resources={"metadata": {"path": str(folder)}},
    )
    with reader.setup_kernel():
        yield reader


def text_of(output):
    """The text of an output; that of the live picture, which is no text, is left out."""
    if output.output_type == "error":
        return ANSI.sub("", "\n".join(output.traceback))
    data = output.get("data", {})
    if any("widget" in mime for mime in data):
        return ""
    return output.get("text") or data.get("text/plain", "")


def run_command(code, folder):
    """Run a command of the terminal; gives what it writes."""
    python = shlex.quote(sys.executable)
    command = re.sub("^jupyter dist ", f"{python} -m jupyter_dist.cli ", code, flags=re.MULTILINE)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.stdout


def assert_shows(step, said):
    """Compare what came with what the page shows, if anything, but for what is measured."""
    if not step.shown:
        return
    expected, found = (MEASURED.sub("N", text).strip() for text in (step.shown, said))
    if not doctest.OutputChecker().check_output(expected, found, SAME):
        lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), "page", "said")
        raise AssertionError("\n".join([step.code, "", *lines, "", said]))


def save_notebook(cells, path):
    """Write cells as a notebook; one that only sets `lr` has the tag of parameters."""
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    for cell in notebook.cells:
        if re.fullmatch(r"%%spmd\nlr = \S+", cell.source):
            cell.metadata["tags"] = ["parameters"]
    nbformat.write(notebook, path)


def take(step, reader, folder):
    """Type a cell or a command, or save a file."""
    if step.file_name:
        (folder / step.file_name).write_text(step.code + "\n")
    elif step.is_command:
        save_notebook([cell.source for cell in reader.nb.cells], folder / "train.ipynb")
        assert_shows(step, run_command(step.code, folder))
    else:
        assert_shows(step, reader.type(step))


def work_through(page, reader, folder, written="", typed=""):
    """Do what a page says, from top to bottom; fails where something else comes out.

    Where the page has `written`, it is `typed` instead.
    """
    try:
        for step in read_steps(page):
            take(step._replace(code=step.code.replace(written, typed)), reader, folder)
    finally:  # where a step has failed, or the page does not end so
        reader.type(Step("%dist_stop", "", is_command=False, pressed_at=""))
