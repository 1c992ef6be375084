"""Everything that is counted: `measure.py`, in processes of its own, for clusters of some sizes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
RANKS = frozenset({2, 8, 64})
KINDS = ("inside", "outside")
AT_ONCE = 2
CORES = 2
"""Of the machine of the budget."""


def count_all(sizes=RANKS):
    """Return what was counted with so many ranks, by (event, ranks, process, quantity)."""
    whats = [(kind, ranks) for ranks in sorted(sizes, reverse=True) for kind in KINDS]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        found = dict(zip(whats, threads.map(_measure, whats), strict=True))
    rows = {}
    for kind, ranks in sorted(whats, key=lambda what: what[1]):
        for event, processes in found[kind, ranks].items():
            for process, quantities in processes.items():
                rows.setdefault((event, ranks, process), {}).update(quantities)
    return {
        (*row, quantity): number
        for row, quantities in rows.items()
        for quantity, number in quantities.items()
        if quantity != "threads" or os.cpu_count() == CORES
    }


def _measure(what):
    kind, ranks = what
    with tempfile.TemporaryDirectory(prefix="jd-costs-") as folder:
        names = ("counts", "tmp", "runtime")
        for name in names:
            os.mkdir(f"{folder}/{name}")
        path = [str(HERE / "inside")] * (kind == "inside") + [str(HERE.parents[1])]
        environ = {
            **os.environ,
            "COSTS_FOLDER": f"{folder}/counts",
            "TMPDIR": f"{folder}/tmp",
            "JUPYTER_RUNTIME_DIR": f"{folder}/runtime",
            "PYTHONPATH": os.pathsep.join(path),
        }
        words = [sys.executable, str(HERE / "measure.py"), kind, str(ranks)]
        if kind == "outside" and shutil.which("strace"):
            words.append("--strace")
        done = subprocess.run(
            words, env=environ, capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr
        left = [*Path(folder, "tmp").rglob("*"), *Path(folder, "runtime").rglob("*")]
        assert not left, left
        return json.loads(done.stdout)
