"""What the list of clusters takes for one, and what it passes over."""

import os
from pathlib import Path
from time import time

import msgspec
import pytest

from jupyter_dist.errors import ClusterExists
from jupyter_dist.launch.batch import files
from jupyter_dist.launch.batch.files import make_job_dir
from jupyter_dist.launch.files import connection_file
from jupyter_dist.launch.files.connection_file import (
    ConnectionInfo,
    connection_path,
    find_connection,
    keep_connection,
    path_of,
    read_connection,
    running_clusters,
    write_connection,
)
from jupyter_dist.protocol.credentials import Credentials, KeyPair


def info(name):
    return ConnectionInfo(
        name=name,
        clients_address="tcp://127.0.0.1:1",
        credentials=Credentials("key", KeyPair("public", "secret")),
        coordinator_pid=os.getpid(),
        world_size=2,
        log_path="/tmp/log",
    )


def write(name):
    write_connection(connection_path(name), info(name), is_new=True)


def names():
    return [each.name for each in running_clusters()]


def test_clusters_are_found_by_their_files():
    write("two")
    write("one")
    assert names() == ["one", "two"]
    assert read_connection(connection_path("one")) == info("one")
    assert read_connection(connection_path("three")) is None


def test_a_file_that_somebody_else_keeps_to_himself_is_passed_over(monkeypatch):
    write("mine")
    write("theirs")
    read_file = connection_file.read_plain_file

    def read(path):
        if path == connection_path("theirs"):
            raise PermissionError(13, "Permission denied", str(path))
        return read_file(path)

    monkeypatch.setattr(connection_file, "read_plain_file", read)
    assert names() == ["mine"]


def test_what_is_no_connection_file_is_passed_over(runtime):
    write("mine")
    (runtime / "jupyter-dist-folder.json").mkdir()
    (runtime / "jupyter-dist-bytes.json").write_bytes(b'{"name": "\xff"}')
    (runtime / "jupyter-dist-empty.json").touch()
    assert names() == ["mine"]


def test_a_file_that_gives_another_clusters_name_is_passed_over_and_left_alone(
    runtime, monkeypatch
):
    write("mine")
    forged = runtime / "jupyter-dist-forged.json"
    forged.write_bytes(msgspec.json.encode(info("mine")))
    assert [read_connection(forged), names()] == [None, ["mine"]]
    monkeypatch.setattr(connection_file, "process_lives", lambda _pid: False)
    assert names() == []
    assert [path.name for path in runtime.iterdir()] == [forged.name]


def test_what_a_dead_cluster_has_left_is_removed_where_it_can_be(runtime, monkeypatch):
    write("dead")
    write("stuck")
    unlink = Path.unlink

    def remove(path, missing_ok=False):
        if path == connection_path("stuck"):
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", remove)
    monkeypatch.setattr(connection_file, "process_lives", lambda _pid: False)
    assert names() == []
    assert [path.name for path in runtime.iterdir()] == [connection_path("stuck").name]


def test_what_a_killed_coordinator_left_in_a_job_directory_goes_with_its_connection_file(
    runtime, tmp_path, monkeypatch
):
    base = tmp_path / "scratch"
    base.mkdir()
    own_dir = make_job_dir(base, "x")
    (own_dir / "jupyter-dist-x.join").touch()
    (base / "jupyter-dist-notes").mkdir()
    killed = msgspec.structs.replace(info("x"), job_dir=str(base))
    write_connection(connection_path("x"), killed, is_new=True)
    assert read_connection(connection_path("x")) is not None
    for module in (connection_file, files):
        monkeypatch.setattr(module, "process_lives", lambda _pid: False)
    assert running_clusters() == []
    assert [path.name for path in base.iterdir()] == ["jupyter-dist-notes"]
    assert list(runtime.glob("*.json")) == []


# --- a home that several machines share ---


@pytest.fixture
def elsewhere(runtime):
    """The connection file of a cluster of another machine, with its join file beside it."""
    theirs = msgspec.structs.replace(info("theirs"), machine="4026531836 login2")
    path = connection_path("theirs")
    write_connection(path, theirs, is_new=True)
    path.with_suffix(".join").touch()
    return path


@pytest.mark.parametrize("lives", [True, False])
def test_clusters_of_another_machine_are_passed_over_whatever_their_numbers_mean_here(
    runtime, elsewhere, monkeypatch, lives
):
    write("mine")
    monkeypatch.setattr(connection_file, "process_lives", lambda pid: lives or pid == 0)
    assert names() == (["mine"] if lives else [])
    assert read_connection(elsewhere) is None
    assert {path.name for path in runtime.iterdir()} >= {
        "jupyter-dist-theirs.json",
        "jupyter-dist-theirs.join",
    }


def test_a_file_of_another_machine_that_nobody_has_touched_for_long_is_removed(runtime, elsewhere):
    long_ago_s = time() - connection_file.ABANDONED_AFTER_S
    os.utime(elsewhere, (long_ago_s + 30.0, long_ago_s + 30.0))
    assert names() == []
    assert elsewhere.exists()
    os.utime(elsewhere, (long_ago_s, long_ago_s))
    assert names() == []
    assert list(runtime.iterdir()) == []


def test_a_coordinator_keeps_its_file_there_and_young(elsewhere):
    theirs = msgspec.json.decode(elsewhere.read_bytes(), type=ConnectionInfo)
    os.utime(elsewhere, (1.0, 1.0))
    keep_connection(elsewhere, theirs)
    assert time() - elsewhere.stat().st_mtime < connection_file.TOUCH_INTERVAL_S
    elsewhere.unlink()
    keep_connection(elsewhere, theirs)
    assert msgspec.json.decode(elsewhere.read_bytes(), type=ConnectionInfo) == theirs


def test_a_proxy_has_a_file_of_its_own_beside_that_of_a_machine_with_the_same_home():
    far = msgspec.structs.replace(info("shared"), machine="1 elsewhere")
    write_connection(connection_path("shared"), far, is_new=True)
    assert find_connection("shared") is None
    proxy = msgspec.structs.replace(info("shared"), coordinator_host="elsewhere")
    write_connection(path_of(proxy), proxy, is_new=True)
    assert running_clusters() == [proxy]
    assert find_connection("shared") == proxy
    with pytest.raises(ClusterExists):
        write_connection(path_of(proxy), proxy, is_new=True)
