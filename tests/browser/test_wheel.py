"""The wheel, made of a clean checkout, has the panel; a person who installs it has it enabled."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from jupyter_dist.cli.demo.notebooks import NAMES
from tests.facts import assert_tells

pytestmark = [pytest.mark.browser, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
PANEL = "share/jupyter/labextensions/@jupyter-dist/labextension"
SERVER = "etc/jupyter/jupyter_server_config.d/jupyter_dist.json"
MOST_BYTES = 1_800_000
"""The sources alone are two thirds of it; a browser or a font by mistake would be more."""
MOST_SCRIPT_BYTES = 119 << 10
"""What the panel may add to the first load of a page."""
LATER = "/static/debugger."
"""Scripts that a page loads when a rank is to be debugged."""
MOST_LATER_BYTES = 8 << 10
COLOUR = re.compile(r"\x1b\[\d*m")


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """Run a command that must succeed; give what it says."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return COLOUR.sub("", done.stdout + done.stderr)


def build(folder: Path, what: str, cwd: Path, **env: str) -> Path:
    """Build a "wheel" or an "sdist" of the sources in `cwd`, with what is installed here."""
    folder.mkdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", what, "-d", folder, cwd=cwd, **env)
    (made,) = folder.iterdir()
    return made


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files alone, beside the packages of npm that are there already."""
    packages = ROOT / "labextension" / "node_modules"
    lock, note = ROOT / "labextension" / "package-lock.json", packages / ".package-lock.json"
    is_there = note.is_file() and note.stat().st_mtime >= lock.stat().st_mtime
    if not shutil.which("npm") or not is_there:
        pytest.skip("npm, or what it installs for the panel, is missing: `make test` brings it")
    folder = tmp_path_factory.mktemp("checkout")
    tracked = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, tracked):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / "labextension" / "node_modules").symlink_to(packages)
    return folder


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of that checkout, which must have the panel."""
    folder = tmp_path_factory.mktemp("wheel") / "dist"
    return build(folder, "wheel", checkout, JUPYTER_DIST_LABEXTENSION="require")


def test_the_wheel_holds_the_panel_the_servers_switch_and_nothing_large(wheel: Path) -> None:
    names = names_in(wheel)
    data = [name.partition(".data/data/")[2] for name in names if ".data/data/" in name]
    assert SERVER in data
    assert {f"{PANEL}/package.json", f"{PANEL}/install.json"} <= set(data)
    assert [name for name in data if name.startswith(f"{PANEL}/static/remoteEntry.")]
    assert "jupyter_dist/views/topology/static/view.js" in names
    strangers = [
        name
        for name in names
        if name.startswith(("jupyter_dist/labextension/", "labextension/", "tests/"))
        or name.endswith((".map", ".ts", ".pyc"))
    ]
    assert strangers == []
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        scripts = [each for each in archive.infolist() if f"{PANEL}/static/" in each.filename]
    sizes = {each.filename: each.file_size for each in scripts if each.filename.endswith(".js")}
    later = sum(size for name, size in sizes.items() if LATER in name)
    assert 10_000 < sum(sizes.values()) - later <= MOST_SCRIPT_BYTES
    assert 1_000 < later <= MOST_LATER_BYTES


def test_who_installs_the_wheel_has_panel_server_extension_and_the_demo(
    wheel: Path, tmp_path: Path
) -> None:
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=tmp_path)
    python = venv / "bin" / "python"
    purelib = next((venv / "lib").glob("python*/site-packages"))
    # Jupyter itself comes from where the tests run, so that nothing is downloaded again.
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--no-compile", wheel,
        cwd=tmp_path,
    )  # fmt: skip
    (purelib / "jupyter.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    own = {
        name: str(tmp_path / name)
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    module = run(python, "-c", "import jupyter_dist; print(jupyter_dist.__file__)", cwd=tmp_path)
    assert str(venv) in module
    panels = run(python, "-m", "jupyterlab.labextensions", "list", cwd=tmp_path, **own)
    (mine,) = [line for line in panels.splitlines() if "@jupyter-dist/labextension" in line]
    assert "enabled" in mine
    assert "OK" in mine
    servers = run(
        python, "-m", "jupyter_server.extension.serverextension", "list", cwd=tmp_path, **own
    )
    demo = run(python, "-m", "jupyter_dist.cli", "demo", "notebooks", "--no-open", cwd=tmp_path)
    copied = sorted((tmp_path / "notebooks").iterdir())
    assert [path.name in demo for path in copied] == [True] * len(NAMES)
    (mine,) = [line for line in servers.splitlines() if "jupyter_dist.server enabled" in line]
    told = servers.partition(mine)[2]
    assert "Validating jupyter_dist.server" in told
    assert any(line.split()[-1] == "OK" for line in told.splitlines()[1:4])


def test_a_source_archive_makes_the_same_wheel_where_there_is_no_node(
    checkout: Path, wheel: Path, tmp_path: Path
) -> None:
    archive = build(tmp_path / "sdist", "sdist", checkout, JUPYTER_DIST_LABEXTENSION="require")
    with tarfile.open(archive) as opened:
        names = opened.getnames()
        # Python 3.11 has filters from 3.11.4 on; 3.14 wants to be told which.
        filters: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        opened.extractall(tmp_path / "sources", **filters)
    assert [name for name in names if "node_modules" in name] == []
    (sources,) = (tmp_path / "sources").iterdir()
    assert (sources / "labextension" / "src" / "index.ts").is_file()
    (tmp_path / "empty").mkdir()
    again = build(
        tmp_path / "again", "wheel", sources,
        JUPYTER_DIST_LABEXTENSION="require", PATH=str(tmp_path / "empty"),
    )  # fmt: skip
    assert names_in(again) == names_in(wheel)


def test_sources_without_node_make_a_wheel_without_the_panel_and_say_so(
    checkout: Path, tmp_path: Path
) -> None:
    sources = tmp_path / "sources"
    ignored = shutil.ignore_patterns("node_modules", "tests")
    shutil.copytree(checkout, sources, ignore=ignored)
    shutil.rmtree(sources / "jupyter_dist" / "labextension", ignore_errors=True)
    (tmp_path / "empty").mkdir()
    folder = tmp_path / "dist"
    folder.mkdir()
    said = run(
        sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder,
        cwd=sources, PATH=str(tmp_path / "empty"), JUPYTER_DIST_LABEXTENSION="auto",
    )  # fmt: skip
    assert_tells(said, "without", "JupyterLab panel", "node", "npm")
    (bare,) = folder.iterdir()
    assert not any(PANEL in name for name in names_in(bare))
    assert any(name.endswith(SERVER) for name in names_in(bare))
