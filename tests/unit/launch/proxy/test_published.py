import os
import socket

import pytest

from jupyter_dist.errors import ClusterExists
from jupyter_dist.launch.files.connection_file import (
    ABANDONED_AFTER_S,
    ConnectionInfo,
    find_connection,
    running_clusters,
    write_connection,
)
from jupyter_dist.launch.processes.private_dir import this_machine
from jupyter_dist.launch.proxy.published import Published
from jupyter_dist.protocol.credentials import Credentials, KeyPair


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where connection files are, on a machine with the name `home`."""
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(socket, "gethostname", lambda: "home")
    return tmp_path


@pytest.fixture
def publish():
    """Publish clusters as a proxy does; they are removed with the test."""
    published = []

    def publish():
        published.append(Published(_info()))
        return published[-1]

    yield publish
    for each in published:
        each.close()


def _info():
    return ConnectionInfo(
        name="demo",
        clients_address="ipc:///somewhere",
        credentials=Credentials("s" * 40, KeyPair("p" * 40, "q" * 40)),
        coordinator_pid=os.getpid(),
        world_size=1,
        log_path="/log",
        machine=this_machine(),
        coordinator_host="login",
    )


def test_it_is_found_until_it_is_closed(folder, publish):
    published = publish()
    assert find_connection("demo") == _info()
    published.close()
    assert list(folder.iterdir()) == []


def test_it_follows_the_name_of_the_machine(folder, publish, monkeypatch):
    published = publish()
    monkeypatch.setattr(socket, "gethostname", lambda: "dhcp-17")
    published.keep()
    assert [each.name for each in folder.iterdir()] == ["jupyter-dist-demo@dhcp-17.json"]
    assert find_connection("demo") == _info()
    monkeypatch.setattr(socket, "gethostname", lambda: "train")
    published.close()
    assert list(folder.iterdir()) == []


def test_its_time_tells_machines_with_the_same_home_that_it_is_kept(folder, publish, monkeypatch):
    published = publish()
    [path] = folder.iterdir()
    os.utime(path, (0, 0))
    published.keep()
    monkeypatch.setattr(socket, "gethostname", lambda: "other")
    assert running_clusters() == []
    assert path.exists(), f"it was touched less than {ABANDONED_AFTER_S:g} s ago"


def test_it_leaves_alone_what_another_one_has_taken(folder, publish, monkeypatch):
    published = publish()
    with pytest.raises(ClusterExists):
        publish()
    monkeypatch.setattr(socket, "gethostname", lambda: "dhcp-17")
    other = folder / "jupyter-dist-demo@dhcp-17.json"
    write_connection(other, _info())
    before = other.stat().st_ino
    published.keep()
    assert other.stat().st_ino == before
    published.close()
    assert list(folder.iterdir()) == [other]
