"""What `make release` refuses, and what it writes of its own."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "release_build", Path(__file__).parents[2] / "release" / "build.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_two_builds_have_to_be_equal_byte_by_byte(build: ModuleType, tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        (folder / "x.whl").write_bytes(b"the same")
    build.compare(first, second)
    (second / "x.whl").write_bytes(b"another")
    with pytest.raises(build.NotReleased, match=r"x\.whl"):
        build.compare(first, second)


def test_a_version_without_its_changelog_is_not_released(build: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "README.md").touch()
    log = tmp_path / "CHANGELOG.md"
    log.write_text("# Changelog\n\n## 1.2.0 (2026-01-01)\n")
    build.check_changelog(tmp_path, "1.2.0")
    with pytest.raises(build.NotReleased, match=r"of 1\.3\.0"):
        build.check_changelog(tmp_path, "1.3.0")
    (tmp_path / "changes" / "+more.added.md").touch()
    with pytest.raises(build.NotReleased, match=r"more\.added\.md waits"):
        build.check_changelog(tmp_path, "1.2.0")


def test_the_recipe_gets_the_digest_of_the_source_archive(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "DIST", tmp_path)
    sdist = tmp_path / "x.tar.gz"
    sdist.write_bytes(b"sources")
    build.fill_recipe(sdist)
    written = (tmp_path / "recipe.yaml").read_text()
    assert f"  sha256: {build.digest(sdist)}\n" in written
    assert len(written.splitlines()) == len(
        (build.ROOT / "recipe/recipe.yaml").read_text().splitlines()
    )


def test_a_tool_that_fails_ends_the_release_with_its_words(build: ModuleType) -> None:
    assert build.run("echo", "all well") == b"all well\n"
    with pytest.raises(build.NotReleased, match=r"(?s)status 3.*what it says"):
        build.run("sh", "-c", "echo what it says >&2; exit 3")
