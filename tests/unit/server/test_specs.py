import os
import re
from pathlib import Path

import msgspec
import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.server.specs import MOST_BYTES, SpecFolders

PAIR = 'name = "pair"\n[[hosts]]\nname = "node[01-02]:8"\n[[hosts]]\nname = "old"\n'


@pytest.fixture
def folders(tmp_path):
    for name in ("root/clusters", "own", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    return SpecFolders(tmp_path / "root", tmp_path / "own")


@pytest.fixture
def rows(folders):
    return lambda: {Path(row.path).name: row for row in folders.list_specs()}


def refusal(folders, given):
    with pytest.raises(UsageError) as caught:
        folders.find(str(given))
    return str(caught.value)


def test_folders_that_do_not_exist_hold_nothing(tmp_path):
    folders = SpecFolders(tmp_path / "none", tmp_path / "neither")
    assert folders.list_specs() == []
    assert len(folders.paths) == 3


def test_specifications_are_found_with_their_hosts(folders, rows, tmp_path):
    (tmp_path / "root/clusters/a.toml").write_text(PAIR)
    (tmp_path / "own/b.toml").write_text("timeout = '2m'\n")
    found = rows()
    assert (found["a.toml"].name, found["a.toml"].hosts) == ("pair", "node01:8, node02:8, old")
    assert (found["b.toml"].name, found["b.toml"].hosts) == ("b", "localhost:4")


def test_a_job_is_found_beside_notebooks_too(rows, tmp_path):
    job = '[batch]\nsystem = "slurm"\nnodes = 2\n'
    (tmp_path / "root/job.toml").write_text(job)
    (tmp_path / "root/eight.toml").write_text(f"{job}slots = 8\n")
    found = rows()
    assert found["job.toml"].hosts == "2 nodes of Slurm"
    assert found["eight.toml"].hosts == "2 nodes of Slurm, 8 ranks each"


def test_beside_notebooks_only_files_with_hosts_count(rows, tmp_path):
    (tmp_path / "root/pyproject.toml").write_text("[project]\n")
    (tmp_path / "root/broken.toml").write_text("[[hosts]]\nname = \n")
    (tmp_path / "root/a.toml").write_text(PAIR)
    found = rows()
    assert set(found) == {"a.toml", "broken.toml"}
    assert "is not TOML" in found["broken.toml"].problem


def test_what_cannot_be_read_says_why(rows, tmp_path):
    (tmp_path / "own/large.toml").write_text("#" * (MOST_BYTES + 1))
    (tmp_path / "own/bytes.toml").write_bytes(b"\xff\xff")
    (tmp_path / "own/key.toml").write_text('nome = "x"\n')
    found = rows()
    assert "256 KiB" in found["large.toml"].problem
    assert "decode" in found["bytes.toml"].problem
    assert "'nome'" in found["key.toml"].problem


def test_a_link_that_leads_out_is_neither_read_nor_started(folders, rows, tmp_path):
    (tmp_path / "elsewhere/secret.toml").write_text(PAIR)
    link = tmp_path / "own/link.toml"
    link.symlink_to(tmp_path / "elsewhere/secret.toml")
    row = rows()["link.toml"]
    assert (row.hosts, bool(row.problem)) == ("", True)
    assert "Accepted: " in refusal(folders, link)


@pytest.mark.timeout(60)
def test_one_odd_file_does_not_hide_the_others(folders, rows, tmp_path):
    own = tmp_path / "own"
    (own / "good.toml").write_text(PAIR)
    (own / "circle.toml").symlink_to("circle.toml")
    (own / "nowhere.toml").symlink_to("nothing.toml")
    (own / ".#good.toml").symlink_to("someone@here.1234")  # an editor's lock
    (own / "folder.toml").mkdir()
    os.mkfifo(own / "pipe.toml")
    (tmp_path / "root/circle.toml").symlink_to("circle.toml")
    found = rows()
    assert found.keys() == {"good.toml", "circle.toml", "nowhere.toml"}
    assert [bool(found[name].problem) for name in found] == [name != "good.toml" for name in found]
    assert "Accepted: " in refusal(folders, own / "circle.toml")
    assert "Accepted: " not in refusal(folders, own / "pipe.toml")


@pytest.mark.parametrize("content", [PAIR, "nome = 1\n"])
def test_a_name_that_is_not_utf_8_is_told_in_text_that_can_be_sent(rows, tmp_path, content):
    path = tmp_path / "own" / os.fsdecode(b"caf\xe9.toml")
    path.write_text(content)
    row = rows()["caf\ufffd.toml"]
    assert row.name == "caf\ufffd"
    assert "caf\ufffd.toml" in row.problem
    msgspec.json.encode(row)


def test_folders_that_are_not_utf_8_are_told_in_text_that_can_be_sent(tmp_path):
    folders = SpecFolders(tmp_path / os.fsdecode(b"caf\xe9"), tmp_path)
    assert msgspec.json.decode(msgspec.json.encode(folders.paths))[0].endswith("caf\ufffd")


@pytest.mark.parametrize(
    "given",
    [
        "a\0.toml",
        "/a\0/b.toml",
        "/etc/passwd",
        "../elsewhere/x.toml",
        "clusters/../../x.toml",
        "clusters",
        "a.txt",
        "deep/a/b.toml",
    ],
)
def test_paths_outside_are_refused_with_the_folders_that_count(folders, given):
    assert re.search(r"Accepted: .* \*\.toml in .*root.*own", refusal(folders, given))


def test_paths_inside_are_found_whole_or_from_the_notebooks_folder(folders, tmp_path):
    path = tmp_path / "root/clusters/a.toml"
    assert "Accepted: " not in refusal(folders, path)
    path.write_text(PAIR)
    assert folders.find(str(path)) == folders.find("clusters/a.toml") == path
    assert str(path) in refusal(folders, "clusters/b.toml")
    assert "Accepted: " not in refusal(folders, f"clusters/{'x' * 300}.toml")
