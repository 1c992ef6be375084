"""Rules of the house that no tool checks."""

import ast
import json
import os
import subprocess
import sys
import tomllib

import pytest

from jupyter_dist.model.spec.rank_environment import THREAD_VARIABLES

from .sources import PACKAGE, ROOT, SOURCES, name_of, nodes_of, parsed

MOST_LINES_OF_A_FUNCTION = 45
"""Of its body, without the docstring."""
MOST_LINES_OF_A_CLASS = 300
MOST_MODULES_OF_A_FOLDER = 16
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


def body_lines(node):
    """The number of lines of a function below its signature and its docstring."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_functions_and_classes_fit_into_the_head():
    found = []
    for path in SOURCES:
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines, most = body_lines(node), MOST_LINES_OF_A_FUNCTION
            elif isinstance(node, ast.ClassDef):
                lines, most = node.end_lineno - node.lineno + 1, MOST_LINES_OF_A_CLASS
            else:
                continue
            if lines > most:
                found.append(f"{name_of(path)}: {node.name} has {lines} lines")
    assert found == []


def is_empty(value):
    """Return whether this is a function that does nothing, as `lambda _host: None`."""
    return isinstance(value, ast.Lambda) and getattr(value.body, "value", 0) is None


def test_no_object_is_attached_one_function_at_a_time():
    """Who is told of something is given when an object is made, or attached as an object."""
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.Assign | ast.AnnAssign) and is_empty(node.value)
    ]
    assert found == []


def test_a_folder_can_be_read_at_a_glance():
    folders = {path.parent for path in SOURCES}
    modules = {name_of(one): len(set(one.glob("*.py")) - {one / "__init__.py"}) for one in folders}
    assert {name: n for name, n in modules.items() if n > MOST_MODULES_OF_A_FOLDER} == {}


def test_every_folder_of_tests_is_run():
    folders = {path.relative_to(ROOT).parts[:2] for path in ROOT.glob("tests/*/**/test_*.py")}
    units, processes = _folders_of("test-all")
    assert sorted(units + processes) == sorted("/".join(parts) for parts in folders)
    assert [_folders_of(target) for target in ("units", "test", "slow")] == [
        [units],
        [processes],
        [processes],
    ]


def _folders_of(target: str) -> list[list[str]]:
    """Return the folders of each run of pytest of this target."""
    words = ["make", "--dry-run", target, "TESTS="]
    said = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [
        [word for word in line.split() if word.startswith("tests/")]
        for line in said.splitlines()
        if " -m pytest " in line
    ]


def test_no_module_has_a_name_that_says_nothing():
    vague = {"util", "utils", "common", "core", "helper", "helpers", "misc", "base_utils"}
    names = {part for path in SOURCES for part in path.relative_to(PACKAGE).with_suffix("").parts}
    assert names & vague == set()


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_module_says_what_it_is_for(path):
    if not path.name.endswith("_pb2.py"):
        assert ast.get_docstring(parsed(path))


@pytest.mark.parametrize("module", ["jupyter_dist.engine.__main__", "jupyter_dist.engine.zygote"])
def test_an_engine_never_loads_the_notebooks_side(module):
    modules = imported_by(f"import {module}")
    assert module in modules
    assert within(modules, NOTEBOOK_SIDE) == []


def test_ipyparallel_is_loaded_where_it_is_used_and_not_before():
    """What a notebook, a command and the processes of a cluster load when they begin."""
    code = """
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
history = Config({"HistoryManager": {"enabled": False}})
InteractiveShell.instance(config=history).run_line_magic("load_ext", "jupyter_dist")
from jupyter_dist import Cluster
import jupyter_dist.agent.__main__, jupyter_dist.cli.__main__, jupyter_dist.coordinator.__main__
import jupyter_dist.server
"""
    modules = imported_by(code)
    assert "jupyter_dist.cluster.cluster" in modules
    assert within(modules, ["ipyparallel"]) == []


def check_fork(code):
    imported_by(
        f"{code}\nfrom jupyter_dist.engine.zygote import assert_safe_to_fork\nassert_safe_to_fork()",
        **dict.fromkeys(THREAD_VARIABLES, "1"),  # as its agent starts it
    )


def test_the_zygote_can_be_forked_after_all_its_imports():
    check_fork("import jupyter_dist.engine.__main__, jupyter_dist.protocol.objects")


A_THREAD = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()"
A_DRIVER = (
    "import mmap\nopen('libcuda.so.1', 'wb').write(bytes(4096))\nfile = open('libcuda.so.1', 'rb')\n"
    "mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)"
)


@pytest.mark.parametrize(("code", "named"), [(A_THREAD, "2 threads"), (A_DRIVER, "libcuda.so")])
def test_a_zygote_with_a_thread_or_cudas_driver_is_not_forked(tmp_path, monkeypatch, code, named):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        check_fork(code)
    assert named in caught.value.stderr


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


def test_mutants_are_run_with_tests_that_there_are():
    text = (ROOT / "tests" / "mutants" / "tests.toml").read_text(encoding="utf-8")
    paths = {
        ROOT / "tests" / "unit" / path for some in tomllib.loads(text).values() for path in some
    }
    assert [path for path in paths if not path.is_file()] == []
