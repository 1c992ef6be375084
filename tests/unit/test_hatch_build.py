"""What the build of a wheel does about the panel, and what its packages may name."""

import importlib.util
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from jupyter_dist.version import __version__

pytest.importorskip("hatchling", reason="hatchling is not installed")

_ROOT = Path(__file__).parents[2]


def load_hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", _ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hatch_build = load_hook()


class Npm:
    """npm and node as the hook calls them; `build` leaves what a real one leaves."""

    def __init__(self, root: Path, node: str = "v20.19.0\n") -> None:
        self.root = root
        self.node = node
        self.calls: list[list[str]] = []
        self.failing = ""
        self.hanging = ""

    def __call__(
        self, command: Sequence[str], timeout: float | None = None, **_: Any
    ) -> subprocess.CompletedProcess[str]:
        if command[-1] == "--version":
            return subprocess.CompletedProcess(command, 0, self.node, "")
        self.calls.append(list(command[1:]))
        if self.hanging in command:
            assert timeout is not None, "it would wait for ever"
            raise subprocess.TimeoutExpired(command, timeout)
        if self.failing in command:
            return subprocess.CompletedProcess(command, 1, "", "ETARGET No matching version")
        if "ci" in command:
            (self.root / "labextension/node_modules").mkdir()
            (self.root / "labextension/node_modules/.package-lock.json").touch()
        else:
            write(self.root, "jupyter_dist/labextension/package.json", "{}")
            write(self.root, "jupyter_dist/labextension/static/main.js", "1")
        return subprocess.CompletedProcess(command, 0, "", "")


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Npm:
    """Sources of a panel in tmp_path, and an npm that seems to build it."""
    for name in ("package.json", "package-lock.json", "tsconfig.json", "install.json"):
        write(tmp_path, f"labextension/{name}", "{}")
    write(tmp_path, "labextension/src/index.ts", "export {};")
    write(tmp_path, "jupyter_dist/views/topology/static/view.js", "export {};")
    npm = Npm(tmp_path)
    monkeypatch.delenv(hatch_build.CHOICE_VARIABLE, raising=False)
    monkeypatch.setattr(hatch_build.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(hatch_build.subprocess, "run", npm)
    return npm


def initialize(root: Path, target: str = "wheel") -> tuple[dict[str, Any], list[str]]:
    warnings: list[str] = []
    app = SimpleNamespace(display_warning=warnings.append)
    hook = hatch_build.PanelBuildHook(str(root), {}, None, None, str(root), target, app)
    build_data: dict[str, Any] = {"shared_data": {}}
    hook.initialize("standard", build_data)
    return build_data["shared_data"], warnings


def test_the_panel_is_built_once_and_goes_where_jupyter_looks_for_it(npm: Npm) -> None:
    shared, warnings = initialize(npm.root)
    place = "share/jupyter/labextensions/@jupyter-dist/labextension"
    assert shared == {
        "jupyter_dist/labextension/package.json": f"{place}/package.json",
        "jupyter_dist/labextension/static/main.js": f"{place}/static/main.js",
        "labextension/install.json": f"{place}/install.json",
    }
    assert warnings == []
    assert [call[0] for call in npm.calls] == ["ci", "run"]
    assert initialize(npm.root)[0] == shared
    assert len(npm.calls) == 2


@pytest.mark.parametrize(
    "name", ["labextension/src/index.ts", "jupyter_dist/views/topology/static/view.js"]
)
def test_a_change_of_a_source_has_the_panel_built_again(npm: Npm, name: str) -> None:
    initialize(npm.root)
    write(npm.root, name, "export const changed = 1;")
    initialize(npm.root)
    assert [call[0] for call in npm.calls] == ["ci", "run", "run"]


def test_packages_are_installed_again_after_the_lock_file_has_changed(npm: Npm) -> None:
    initialize(npm.root)
    assert hatch_build.has_packages(npm.root)
    note = npm.root / "labextension/node_modules/.package-lock.json"
    lock = npm.root / "labextension/package-lock.json"
    lock.touch()
    os.utime(note, (1, 1))
    assert not hatch_build.has_packages(npm.root)


def test_a_source_archive_carries_the_built_panel_but_no_shared_data(npm: Npm) -> None:
    shared, _ = initialize(npm.root, target="sdist")
    assert shared == {}
    assert (npm.root / "jupyter_dist/labextension/static/main.js").is_file()


def test_what_was_built_serves_where_there_is_no_node(
    npm: Npm, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _ = initialize(npm.root)
    monkeypatch.setattr(hatch_build.shutil, "which", lambda _: None)
    assert initialize(npm.root) == (before, [])


def test_without_node_all_goes_on_and_one_line_says_what_is_missing(
    npm: Npm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hatch_build.shutil, "which", lambda _: None)
    shared, (warning,) = initialize(npm.root)
    assert shared == {}
    assert "without its JupyterLab panel: not found: node and npm" in warning
    assert "install Node.js 20.19 or newer" in warning
    assert "\n" not in warning


def test_an_old_node_is_named_with_its_version(npm: Npm) -> None:
    npm.node = "v18.20.4\n"
    shared, (warning,) = initialize(npm.root)
    assert shared == {}
    assert "/usr/bin/node is version v18.20.4. To have the panel" in warning


def test_who_requires_the_panel_is_told_why_it_failed(
    npm: Npm, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm.failing = "ci"
    _, (warning,) = initialize(npm.root)
    assert "ETARGET No matching version" in warning
    monkeypatch.setenv("JUPYTER_DIST_LABEXTENSION", "require")
    with pytest.raises(hatch_build.PanelNotBuilt, match="ETARGET No matching version"):
        initialize(npm.root)


def test_a_registry_that_does_not_answer_holds_the_build_up_for_a_bounded_time(npm: Npm) -> None:
    npm.hanging = "ci"
    _, (warning,) = initialize(npm.root)
    assert "--no-fund --fetch-timeout=60000 --fetch-retries=1 has not ended" in warning
    assert "within 600 s. To have the panel" in warning


def test_who_skips_the_panel_gets_no_part_of_it(npm: Npm, monkeypatch: pytest.MonkeyPatch) -> None:
    initialize(npm.root)
    monkeypatch.setenv("JUPYTER_DIST_LABEXTENSION", "skip")
    assert initialize(npm.root) == ({}, [])


def test_an_unknown_choice_names_those_that_are_accepted() -> None:
    assert hatch_build.read_choice({}) == "auto"
    with pytest.raises(ValueError, match=r"='no': accepted are auto, skip, require"):
        hatch_build.read_choice({"JUPYTER_DIST_LABEXTENSION": "no"})


@pytest.mark.parametrize(
    ("said", "expected"),
    [("v20.19.0", True), ("v22.1.0", True), ("v20.18.3", False), ("v8.9.9", False), ("", False)],
)
def test_versions_of_node_are_compared_as_numbers(said: str, expected: bool) -> None:
    assert hatch_build.is_new_enough(said) is expected


def test_the_panel_has_the_version_of_the_package_and_its_packages_come_from_anywhere() -> None:
    package = json.loads((_ROOT / "labextension/package.json").read_text(encoding="utf-8"))
    lock = json.loads((_ROOT / "labextension/package-lock.json").read_text(encoding="utf-8"))
    assert package["version"] == lock["version"] == __version__
    named = [entry["resolved"] for entry in lock["packages"].values() if "resolved" in entry]
    assert [url for url in named if not url.startswith("https://registry.npmjs.org/")] == []
