import os
import re

import pytest

from jupyter_dist.agent.code.code_dir import CodeDir, CodeProblem
from jupyter_dist.model.transfer.code_manifest import (
    CodeFile,
    CodeSource,
    Manifest,
    Piece,
    new_digest,
)
from jupyter_dist.model.transfer.code_place import Imported, imports_path, write_import


def digest(data):
    whole = new_digest()
    whole.update(data)
    return whole.digest()


def manifest(contents, names=None, origin="/home/me/pkg", folders=(), mode=0o644):
    """Describe {path: contents}; names are the first parts of the paths unless given."""
    files = tuple(CodeFile(path, len(data), mode, digest(data)) for path, data in contents.items())
    if names is None:
        names = tuple(dict.fromkeys(path.split("/")[0] for path in (*contents, *folders)))
    return Manifest((CodeSource(origin, tuple(names)),), files, tuple(folders))


class Host:
    """A code directory, and what the other end does."""

    def __init__(self, run_dir):
        self.run_dir = run_dir
        self.code = CodeDir(run_dir)

    def sync(self, contents, **more):
        """Do a whole sync; give the paths that had to be sent, and how many files went."""
        data = list(contents.values())
        lacking = self.code.begin(manifest(contents, **more))
        self.code.add(
            [Piece(index, data[index]) for index in {data[i]: i for i in lacking}.values()]
        )
        return [list(contents)[index] for index in lacking], self.code.settle()

    def files(self):
        return {
            str(path.relative_to(self.path(""))): path.read_bytes()
            for path in sorted(self.path("").rglob("*"))
            if path.is_file()
        }

    def path(self, name):
        return self.run_dir / "code" / name

    def changed_s(self, name):
        return int(self.path(name).stat().st_mtime)


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def test_what_is_not_there_is_wanted_and_put_into_place(host):
    contents = {"pkg/__init__.py": b"", "pkg/a.py": b"x = 1\n", "pkg/inner/b.py": b"y\n"}
    assert host.sync(contents) == (list(contents), 0)
    assert host.files() == contents
    assert not host.code.incoming_dir.exists()


def test_only_what_differs_or_was_changed_on_the_host_is_wanted(host):
    host.sync({"pkg/a.py": b"1", "pkg/b.py": b"2"})
    assert host.sync({"pkg/a.py": b"1", "pkg/b.py": b"3"}) == (["pkg/b.py"], 0)
    host.path("pkg/a.py").write_bytes(b"x")
    assert host.sync({"pkg/a.py": b"1", "pkg/b.py": b"3"}) == (["pkg/a.py"], 0)
    assert host.files() == {"pkg/a.py": b"1", "pkg/b.py": b"3"}


def test_the_same_contents_arrive_once_for_several_files(host):
    contents = {"pkg/a.py": b"same", "pkg/b.py": b"same", "pkg/c/d.py": b"same"}
    host.sync(contents)
    assert host.files() == contents
    assert len({host.path(path).stat().st_ino for path in contents}) == 3


def test_what_is_no_longer_here_is_removed_there(host):
    host.sync({"pkg/a.py": b"1", "pkg/b.py": b"2", "pkg/inner/c.py": b"3", "other.py": b"4"})
    bytecode = host.path("pkg/inner/__pycache__")
    bytecode.mkdir()
    (bytecode / "c.cpython-311.pyc").touch()
    assert host.sync({"pkg/a.py": b"1"}, origin="/home/me/pkg2")[1] == 2
    assert host.files() == {"other.py": b"4", "pkg/a.py": b"1"}
    assert not host.path("pkg/inner").exists()


def test_bytecode_next_to_sources_that_stay_is_kept(host):
    host.sync({"pkg/a.py": b"1"})
    bytecode = host.path("pkg/__pycache__/a.cpython-311.pyc")
    bytecode.parent.mkdir()
    bytecode.touch()
    host.sync({"pkg/a.py": b"1"})
    assert bytecode.exists()


def test_of_a_folders_contents_the_names_that_are_gone_are_removed(host):
    host.sync({"other.py": b"0"}, origin="/home/me/other.py")
    host.sync({"a.py": b"1", "b/c.py": b"2"}, origin="/home/me/src/")
    assert host.sync({"a.py": b"1"}, origin="/home/me/src/") == ([], 1)
    assert host.files() == {"a.py": b"1", "other.py": b"0"}


def test_a_name_that_now_comes_from_elsewhere_is_not_removed_with_its_first_origin(host):
    host.sync({"a.py": b"1", "b.py": b"2"}, origin="/home/me/src/")
    host.sync({"b.py": b"3"}, origin="/home/me/b.py")
    assert host.sync({"a.py": b"1"}, origin="/home/me/src/") == ([], 0)
    assert host.files() == {"a.py": b"1", "b.py": b"3"}


def test_a_file_may_become_a_folder_and_back(host):
    for path in ("pkg/a.py", "pkg/a.py/b.py", "pkg", "pkg/a.py"):
        host.sync({path: path.encode()})
        assert host.files() == {path: path.encode()}


def test_folders_with_nothing_in_them_are_made_and_removed(host):
    host.sync({"pkg/a.py": b"1"}, folders=("pkg/empty/inner",))
    assert host.path("pkg/empty/inner").is_dir()
    host.sync({"pkg/a.py": b"1"})
    assert not host.path("pkg/empty").exists()


def test_permission_bits_arrive_and_follow(host):
    for mode, wanted in ((0o750, ["pkg/run.sh"]), (0o640, [])):
        assert host.sync({"pkg/run.sh": b"#!/bin/sh"}, mode=mode) == (wanted, 0)
        assert host.path("pkg/run.sh").stat().st_mode & 0o777 == mode


def test_nothing_is_written_through_a_link_that_lies_there(host, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_bytes(b"1")
    host.sync({"pkg/b.py": b"0"})
    os.symlink(outside, host.path("pkg/inner"))
    os.symlink(outside / "a.py", host.path("pkg/c.py"))
    contents = {"pkg/b.py": b"0", "pkg/inner/a.py": b"1", "pkg/c.py": b"new"}
    assert host.sync(contents) == (["pkg/inner/a.py", "pkg/c.py"], 0)
    assert host.files() == dict(sorted(contents.items()))
    assert not host.path("pkg/inner").is_symlink()
    assert (outside / "a.py").read_bytes() == b"1"
    os.symlink(outside, host.path("pkg/stray"))
    host.sync(contents)
    assert (outside / "a.py").exists()
    assert not host.path("pkg/stray").is_symlink()


@pytest.mark.parametrize("path", ["../x.py", "/tmp/x.py", "pkg/../../x.py"])
def test_a_path_that_leads_out_is_refused(host, path):
    with pytest.raises(CodeProblem, match=re.escape(repr(path))):
        host.code.begin(manifest({path: b"1"}, names=("pkg",)))


def test_what_has_not_arrived_whole_changes_nothing(host):
    host.sync({"pkg/a.py": b"1", "pkg/b.py": b"2"})
    host.code.begin(manifest({"pkg/a.py": b"3", "pkg/c.py": b"whole"}))
    host.code.add([Piece(0, b"3"), Piece(1, b"who")])
    with pytest.raises(CodeProblem, match=r"pkg/c\.py .*arrived"):
        host.code.settle()
    assert host.files() == {"pkg/a.py": b"1", "pkg/b.py": b"2"}


def test_a_new_sync_forgets_what_an_older_one_has_brought(host):
    host.code.begin(manifest({"pkg/a.py": b"12"}))
    host.code.add([Piece(0, b"1")])
    assert host.sync({"pkg/a.py": b"12"}) == (["pkg/a.py"], 0)
    assert host.files() == {"pkg/a.py": b"12"}


def test_every_version_of_a_file_and_every_sync_of_a_folder_has_its_own_time(host):
    files, folders = set(), set()
    for number, data in enumerate((b"1", b"2", b"1", b"3")):
        host.sync({"pkg/a.py": data, **({"pkg/b.py": b""} if number == 1 else {})})
        files.add(host.changed_s("pkg/a.py"))
        folders.add((host.changed_s(""), host.changed_s("pkg")))
    assert (len(files), len(folders)) == (4, 4)


def test_modules_that_changed_since_they_were_imported_are_named(host):
    contents = {"pkg/__init__.py": b"", "pkg/a.py": b"1", "pkg/b.py": b"2", "pkg/c.py": b"3"}
    host.sync(contents)
    for rank, names in ((0, ("a", "b")), (1, ("a", "c")), (2, ("b",))):
        for name in names:
            path = host.path(f"pkg/{name}.py")
            line = write_import(Imported(f"pkg.{name}", str(path), path.stat().st_mtime))
            with open(imports_path(str(host.run_dir), rank), "ab") as file:
                file.write(line)
    assert host.code.stale_modules(["0", "1", "2"]) == []
    host.sync(contents | {"pkg/a.py": b"new", "pkg/b.py": b"new"})
    assert host.code.stale_modules(["0", "1", "7"]) == ["pkg.a", "pkg.b"]
    assert host.code.stale_modules(["1"]) == ["pkg.a"]
    del contents["pkg/a.py"]
    host.sync(contents)
    assert host.code.stale_modules(["1"]) == []
