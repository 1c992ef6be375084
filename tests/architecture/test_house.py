"""Rules of the house that no tool checks."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_dist.agent.zygote_process import THREAD_VARIABLES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "jupyter_dist"
SOURCES = sorted(PACKAGE.rglob("*.py"))
LINES = 350
NOTEBOOK_SIDE = (
    "jupyter_dist.cluster",
    "jupyter_dist.views",
    "jupyter_dist.magics",
    "jupyter_dist.coordinator",
    "jupyter_dist.cli",
    "jupyter_dist.server",
    "grpc",
    "ipywidgets",
    "anywidget",
    "ipykernel",
    "ipyparallel",
)


def imported_by(code, **env):
    """Every module that is loaded after a fresh interpreter ran this."""
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-P", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, **env},
    )
    return json.loads(run.stdout)


def within(modules, names):
    return [m for m in modules if any(m == name or m.startswith(f"{name}.") for name in names)]


def name_of(path):
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_file_fits_into_the_head(path):
    assert len(path.read_text().splitlines()) <= LINES


def test_every_folder_of_tests_is_run():
    folders = {path.relative_to(ROOT).parts[:2] for path in ROOT.glob("tests/*/**/test_*.py")}
    words = ["make", "--dry-run", "test-all", "TESTS="]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    units, processes, slow = (
        [word for word in line.split() if word.startswith("tests/")]
        for line in said.splitlines()
        if " -m pytest " in line
    )
    assert sorted(units + processes) == sorted("/".join(parts) for parts in folders)
    assert slow == processes


def test_no_module_has_a_name_that_says_nothing():
    vague = {"util", "utils", "common", "core", "helper", "helpers", "misc", "base_utils"}
    names = {part for path in SOURCES for part in path.relative_to(PACKAGE).with_suffix("").parts}
    assert names & vague == set()


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_module_says_what_it_is_for(path):
    if not path.name.endswith("_pb2.py"):
        assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("module", ["jupyter_dist.engine.__main__", "jupyter_dist.engine.zygote"])
def test_an_engine_never_loads_the_notebooks_side(module):
    modules = imported_by(f"import {module}")
    assert module in modules
    assert within(modules, NOTEBOOK_SIDE) == []


def test_the_zygote_can_be_forked_after_all_its_imports():
    imported_by(
        "import jupyter_dist.engine.__main__, jupyter_dist.protocol.objects\n"
        "from jupyter_dist.engine.zygote import assert_safe_to_fork\n"
        "assert_safe_to_fork()",
        **dict.fromkeys(THREAD_VARIABLES, "1"),  # as its agent starts it
    )


def test_a_zygote_with_a_thread_is_not_forked():
    with pytest.raises(subprocess.CalledProcessError) as caught:
        imported_by(
            "import threading\n"
            "from jupyter_dist.engine.zygote import assert_safe_to_fork\n"
            "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
            "assert_safe_to_fork()",
            **dict.fromkeys(THREAD_VARIABLES, "1"),
        )
    assert "the zygote has 2 threads" in caught.value.stderr


def test_a_zygote_that_has_loaded_cudas_driver_is_not_forked(tmp_path):
    driver = tmp_path / "libcuda.so.1"
    driver.write_bytes(bytes(4096))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        imported_by(
            "import mmap\n"
            "from jupyter_dist.engine.zygote import assert_safe_to_fork\n"
            f"file = open({str(driver)!r}, 'rb')\n"
            "mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)\n"
            "assert_safe_to_fork()",
            **dict.fromkeys(THREAD_VARIABLES, "1"),
        )
    assert "libcuda.so" in caught.value.stderr


def test_importing_the_package_loads_nothing_heavy():
    modules = imported_by("import jupyter_dist")
    assert within(modules, ["jupyter_dist"]) == ["jupyter_dist", "jupyter_dist.version"]
    heavy = ("IPython", "zmq", "grpc", "numpy", "msgspec", "psutil", "cryptography", "ipywidgets")
    assert within(modules, heavy) == []


def test_the_version_is_known_everywhere():
    import jupyter_dist
    from jupyter_dist.version import __version__

    assert jupyter_dist.__version__ == __version__
    assert within(imported_by("import jupyter_dist.version"), ["jupyter_dist"])


@pytest.mark.parametrize("name", ["Cluster", "RankResult", "SpmdResult", "TopologyWidget"])
def test_public_names_are_loaded_on_first_use(name):
    import jupyter_dist

    assert name in jupyter_dist.__all__
    assert getattr(jupyter_dist, name).__name__ == name


def test_a_name_that_is_not_public_is_not_found():
    import jupyter_dist

    with pytest.raises(AttributeError, match="no_such_name"):
        _ = jupyter_dist.no_such_name
