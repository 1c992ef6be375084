"""What the list of clusters takes for one, and what it passes over."""

import os
from pathlib import Path

import msgspec
import pytest

from jupyter_dist.launch import connection_file
from jupyter_dist.launch.connection_file import (
    ConnectionInfo,
    connection_path,
    read_connection,
    running_clusters,
    write_connection,
)
from jupyter_dist.protocol.credentials import Credentials, KeyPair


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    return tmp_path / "runtime"


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
    read_bytes = Path.read_bytes

    def read(path):
        if path == connection_path("theirs"):
            raise PermissionError(13, "Permission denied", str(path))
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", read)
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
