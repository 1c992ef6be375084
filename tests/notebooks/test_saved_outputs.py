"""How a kernel's cells are saved when each is shown once, and what `%%capture` has."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests.kernels import with_files

CELLS = {
    "load": "%load_ext jupyter_dist\n%dist_output --final",
    "start": "%dist_start -n 2",
    "lines": "%%spmd\nprint('line of', rank)\nprint('all')",
    "captured": (
        "%%capture cap\n%%spmd\nimport sys\nprint('line of', rank)\n"
        "print('no', file=sys.stderr)\nrank"
    ),
    "what it has": "(cap.stdout, cap.stderr, [each.data['text/plain'] for each in cap.outputs])",
    "shown": "cap.show()",
    "by rank": "%dist_output 3 --group-outputs rank",
    "behind": "%%spmd --background -o later\nprint('behind')",
    "waited": "_ = later.wait()",
    "stop": "%dist_stop",
}


class Client(NotebookClient):
    """Runs a notebook; remembers the cells that were updated."""

    def __init__(self, *given, **options):
        super().__init__(*given, **options)
        self.updated = []

    def process_message(self, msg, cell, cell_index):
        """Look at what the kernel says, and process it."""
        if msg["msg_type"] == "update_display_data":
            self.updated.append(cell.source)
        return super().process_message(msg, cell, cell_index)


@pytest.fixture
def client(tmp_path, monkeypatch):
    """The cells, executed."""
    for variable in ("JUPYTER_RUNTIME_DIR", "TMPDIR", "IPYTHONDIR"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / variable))
    cells = [nbformat.v4.new_code_cell(code) for code in CELLS.values()]
    client = Client(nbformat.v4.new_notebook(cells=cells), config=with_files(), timeout=60)
    client.execute()
    return client


def test_a_cell_is_shown_once_and_what_is_captured_has_its_text(client):
    outputs = {
        name: [{**each} for each in cell.outputs]
        for name, cell in zip(CELLS, client.nb.cells, strict=True)
    }
    [lines] = outputs["lines"]
    assert list(lines["data"]) == ["text/plain", "text/html"]
    assert lines["data"]["text/plain"] == "[0]   line of 0\n[1]   line of 1\n[0-1] all\n"
    printed = "[0] line of 0\n[1] line of 1\n"
    assert outputs["captured"] == []
    assert eval(outputs["what it has"][0]["data"]["text/plain"]) == (
        printed,
        "[0-1] no\n",
        ["Out[0-1]: [0] 0  [1] 1\n"],
    )
    shown = [each.get("text") or each["data"]["text/plain"] for each in outputs["shown"]]
    assert shown == [printed, "[0-1] no\n", "Out[0-1]: [0] 0  [1] 1\n"]
    by_rank = outputs["by rank"][-1]["data"]["text/plain"].splitlines()
    assert by_rank == ["[0] line of 0", "[0] all", "[1] line of 1", "[1] all"]
    assert "[0-1] behind" in outputs["behind"][-1]["data"]["text/plain"]
    once = {CELLS[name] for name in ("lines", "captured", "shown", "by rank")}
    assert once.isdisjoint(client.updated)
