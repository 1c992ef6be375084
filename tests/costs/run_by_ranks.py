"""Find what each rank runs, and write it where zygotes read it: `python tests/costs/run_by_ranks.py`.

What was run is that of two ranks from their birth to the end of a few cells, in all threads.
"""

import json
import os
import sys
import time
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

from jupyter_dist import Cluster
from jupyter_dist.engine import shared_pages

LEARNING = str(Path(__file__).parent / "learning")
IDLE_S = 4.0
"""For which ranks are seen idle, as most of their time: their threads take over, and answer heartbeats."""
CELLS = ("pass", "pass", "pass", "print(rank)\nrank")
TELL = "import sitecustomize, json; print(json.dumps(sitecustomize.find_run()))"


@contextmanager
def learning():
    """Have zygotes that are started within note what their ranks run."""
    path = os.pathsep.join([LEARNING, *filter(None, [os.environ.get("PYTHONPATH")])])
    with mock.patch.dict(os.environ, {"PYTHONPATH": path}):
        yield


def find_run_by_ranks() -> tuple[list[str], list[str]]:
    """Return the functions that a rank runs, as `MODULE:NAME`, and the names in their code."""
    with learning(), Cluster.start("localhost:2") as cluster:
        for cell in CELLS:
            cluster.run(cell)
        time.sleep(IDLE_S)
        cluster.run("pass")
        functions, names = json.loads(cluster.run(TELL)[1].stdout)
    return functions, names


def lay_out(functions: list[str], names: list[str]) -> str:
    """Return the file's text: a line for each module, and one for each beginning of names."""
    by_module = groupby((each.split(":") for each in functions), key=lambda each: each[0])
    by_beginning = groupby(names, key=lambda name: name[:2])
    modules = [
        f"{json.dumps(module)}: {json.dumps([name for _, name in group])}"
        for module, group in by_module
    ]
    lines = [json.dumps(list(group))[1:-1] for _, group in by_beginning]
    functions_told, names_told = ",\n".join(modules), ",\n".join(lines)
    return f'{{"functions": {{\n{functions_told}\n}},\n"names": [\n{names_told}\n]}}\n'


if __name__ == "__main__":
    shared_pages.PATH.write_text(lay_out(*find_run_by_ranks()), encoding="utf-8")
