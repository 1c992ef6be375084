import os
import socket

import pytest

from jupyter_dist.cluster.code import code_files
from jupyter_dist.cluster.code.code_files import read_code
from jupyter_dist.errors import UsageError
from jupyter_dist.model.transfer.code_manifest import CodeSource


def write(root, *paths, text="x = 1\n"):
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def paths(code):
    return [file.path for file in code.manifest.files]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The notebook's directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_is_copied_under_its_name(here):
    write(here, "pkg/__init__.py", "pkg/inner/a.py", "other.py")
    (here / "pkg/run.sh").touch(0o755)
    code = read_code(["pkg"])
    assert paths(code) == ["pkg/__init__.py", "pkg/inner/a.py", "pkg/run.sh"]
    assert code.manifest.sources == (CodeSource(f"{here}/pkg", ("pkg",)),)
    assert [file.mode & 0o100 for file in code.manifest.files] == [0, 0, 0o100]
    assert [local.place for local in code.local] == [f"{here}/{path}" for path in paths(code)]
    assert code.size_bytes == 12
    assert not any(local.has_changed() for local in code.local)
    (here / "pkg/inner/a.py").unlink()
    assert [local.has_changed() for local in code.local] == [False, True, False]


@pytest.mark.parametrize("given", ["src/", "src/.", "./src/", "src/pkg/../", "."])
def test_with_a_slash_at_its_end_what_is_in_a_folder_is_copied(here, monkeypatch, given):
    write(here, "src/pkg/a.py", "src/b.py")
    if given == ".":
        monkeypatch.chdir(here / "src")
    code = read_code([given])
    assert paths(code) == ["b.py", "pkg/a.py"]
    assert code.manifest.sources == (CodeSource(f"{here}/src/", ("b.py", "pkg")),)
    assert [local.place for local in code.local] == [f"{here}/src/b.py", f"{here}/src/pkg/a.py"]


def test_a_file_is_copied_under_its_name(here, monkeypatch):
    write(here, "src/a.py", "home/b.py")
    monkeypatch.setenv("HOME", str(here / "home"))
    code = read_code(["src/a.py", "~/b.py", "src/a.py"])
    assert paths(code) == ["a.py", "b.py"]
    assert [source.origin for source in code.manifest.sources] == [
        f"{here}/src/a.py",
        f"{here}/home/b.py",
    ]


def test_what_no_host_needs_is_left_out(here):
    write(
        here,
        *("pkg/a.py", "pkg/a.pyc", "pkg/__pycache__/a.pyc", "pkg/.git/config", "pkg/.venv/x"),
        *("pkg/.ipynb_checkpoints/a.py", "pkg/node_modules/x/y.js", "pkg/.hidden"),
    )
    os.symlink("/usr", here / "pkg/inner.pyc")
    with socket.socket(socket.AF_UNIX) as pipe:
        pipe.bind("pkg/socket")
        assert paths(read_code(["pkg"])) == ["pkg/.hidden", "pkg/a.py"]


def test_folders_with_nothing_to_copy_are_told(here):
    write(here, "pkg/a.py", "pkg/only_bytecode/__pycache__/a.pyc")
    (here / "pkg/empty/inner").mkdir(parents=True)
    assert read_code(["pkg"]).manifest.folders == ("pkg/empty/inner", "pkg/only_bytecode")


def test_links_that_stay_inside_are_followed(here):
    write(here, "real/pkg/a.py", "real/pkg/inner/b.py")
    os.symlink("a.py", here / "real/pkg/c.py")
    os.symlink("inner", here / "real/pkg/again")
    os.symlink("real/pkg", here / "pkg")
    code = read_code(["pkg"])
    assert paths(code) == ["pkg/a.py", "pkg/again/b.py", "pkg/c.py", "pkg/inner/b.py"]
    assert code.manifest.files[0].digest == code.manifest.files[2].digest


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("../data", r" out .*\(.*/data\)"),
        ("/usr", r" out .*\(/usr\)"),
        ("../pkg2", r" out .*\(.*/pkg2\)"),
        ("nowhere", r" broken \(nowhere\)"),
        ("link", " broken"),
        (".", " to a folder"),
    ],
)
def test_a_link_that_cannot_be_followed_is_named(here, target, told):
    write(here, "pkg/a.py", "data/b.py", "pkg2/c.py")
    os.symlink(target, here / "pkg/link")
    with pytest.raises(UsageError, match=rf"^pkg .* pkg/link .*{told}"):
        read_code(["pkg"])


@pytest.mark.parametrize("given", ["nope", "/nope/a", "nope/", "a.py/", "broken", "pipe"])
def test_a_path_that_is_not_there_or_would_have_to_be_waited_for_is_named(here, given):
    write(here, "a.py")
    os.symlink("nowhere", here / "broken")
    os.mkfifo(here / "pipe")
    with pytest.raises(UsageError, match=f"^{given}"):
        read_code([given])


def test_two_paths_of_one_name_are_refused(here):
    write(here, "a/util.py", "b/util.py")
    with pytest.raises(UsageError, match=r"a/util.py .*b/ .*'util.py'"):
        read_code(["a/util.py", "b/"])


def test_a_name_that_is_no_text_is_refused(here):
    write(here, "pkg/\udcff.py")
    with pytest.raises(UsageError, match=r"udcff\.py.*UTF-8"):
        read_code(["pkg"])


def test_more_than_anybody_calls_code_is_refused_unless_it_is_forced(here, monkeypatch):
    write(here, "pkg/a.py", "pkg/b.py", "pkg/data.bin")
    monkeypatch.setattr(code_files, "MOST_FILES", 2)
    with pytest.raises(UsageError, match=r"^pkg .* 2 files\. .*--force"):
        read_code(["pkg"])
    assert len(paths(read_code(["pkg"], is_forced=True))) == 3
    monkeypatch.setattr(code_files, "MOST_FORCED_FILES", 2)
    with pytest.raises(UsageError, match=r"^pkg .* 2 files\. .* folder\.$"):
        read_code(["pkg"], is_forced=True)
    with open("pkg/data.bin", "wb") as file:
        file.truncate((256 << 20) + 1)
    monkeypatch.setattr(code_files, "MOST_FILES", 20)
    with pytest.raises(UsageError, match=r" 256 MiB, .* pkg/data\.bin .* 256 MiB\."):
        read_code(["pkg"])
