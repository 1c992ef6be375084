"""ipyparallel's own tests of views, from the installed package, on ranks of a cluster of ours.

More of its modules run when they are named:

    JUPYTER_DIST_IPYPARALLEL_TESTS=test_view_broadcast,test_asyncresult \\
        pytest -rP tests/processes/test_ipyparallel_own_tests.py
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import ipyparallel
import pytest

from jupyter_dist.cluster.cluster import Cluster
from tests.matrix import only

pytestmark = pytest.mark.timeout(400)

FOLDER = Path(ipyparallel.__file__).parent / "tests"
PLUGIN = Path(__file__).parent / "ipyparallel_plugin.py"
LIMIT_S = 300
MODULES = ["test_view", "test_lbview"]
MODULES += filter(None, os.environ.get("JUPYTER_DIST_IPYPARALLEL_TESTS", "").split(","))
FIXED = "it starts more engines, and a cluster has its ranks"
COLOURS = "it counts words in tracebacks, which its own engines write without colours"
SIGNALS = "it sends signals that end an engine, and ranks take SIGINT only"
KNOWN = {
    "test_client": {
        "test_ids": FIXED,
        "test_lazy_all_targets": FIXED,
        "test_wait_for_engines": FIXED,
        "test_warning_on_hostname_match": "ours needs no guess at where its controller is",
    },
    "test_magics": {
        "test_cellpx_error_stream": COLOURS,
        "test_cellpx_error_no_stream": COLOURS,
        "test_cellpx_keyboard_interrupt_signal_0": SIGNALS,
        "test_cellpx_keyboard_interrupt_SIGKILL": SIGNALS,
        "test_cellpx_keyboard_interrupt_signal_9": SIGNALS,
    },
    "test_view_broadcast": {
        "test_apply_reference": (
            "ipyparallel alone, with more than two engines: joint replies are not in their order"
        ),
    },
    "test_joblib": {
        "test_default_backend": "it replaces Client.__new__, and our client takes other arguments",
    },
}
"""Test cases that fail, by module, and why."""


@pytest.mark.skipif(not FOLDER.is_dir(), reason="this ipyparallel has come without its tests")
@pytest.mark.parametrize("module", only([], MODULES, at_night=["test_view"]))
def test_ipyparallels_own_tests_pass(home, tmp_path, module):
    outcomes = tmp_path / "outcomes.json"
    path = os.pathsep.join(filter(None, [str(PLUGIN.parent), os.environ.get("PYTHONPATH", "")]))
    environment = {
        **os.environ,
        "JUPYTER_DIST_OUTCOMES": str(outcomes),
        "PYTHONPATH": path,
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", PLUGIN.stem),
        *("-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={tmp_path}"),
        str(FOLDER / f"{module}.py"),
    ]
    run = subprocess.run(
        command,
        check=False,
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    for left in home.temp_dir.glob("tmp*"):  # their harness leaves histories and folders behind
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()
    assert outcomes.exists(), run.stdout[-3000:] + run.stderr[-3000:]
    found = json.loads(outcomes.read_text())
    print(say(module, found))
    assert Cluster.running() == []
    failed = {name for name, (outcome, _why) in found.items() if outcome == "failed"}
    known = {name for name in failed if name.rpartition("::")[2] in KNOWN.get(module, {})}
    assert failed == known, say(module, {name: found[name] for name in failed - known})
    assert found


def say(module, found):
    """Write how many test cases passed, and why others did not."""
    counts = Counter(outcome for outcome, _why in found.values())
    lines = [f"{module}: " + ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))]
    for name, (outcome, why) in found.items():
        if outcome == "failed":
            reason = KNOWN.get(module, {}).get(name.rpartition("::")[2])
            lines.append(f"  {name}: {f'known: {reason}' if reason else why}")
    return "\n".join(lines)
