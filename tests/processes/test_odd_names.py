"""Files and names of any bytes: a clear error at once, and nothing is left of what was tried."""

import contextlib
import errno
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import psutil
import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import DistError, NoCluster, UsageError
from jupyter_dist.launch.files.connection_file import ConnectionInfo, connection_path
from jupyter_dist.protocol.credentials import Credentials, KeyPair

from .leftovers import coordinator_of, engines_of, ports_of
from .results import values

START = (
    "import sys\n"
    "from jupyter_dist import Cluster\n"
    "with Cluster.start('localhost:1') as cluster:\n"
    "    ok = cluster.run('1').ok\n"
    "    cluster.push({'x': 1})\n"
    "    print('works' if ok and cluster.pull('x') == {0: 1} else 'is broken')\n"
)
CREDENTIALS = Credentials("a" * 40, KeyPair("b" * 40, "c" * 40))
INFO = ConnectionInfo(
    name="odd",
    clients_address="tcp://127.0.0.1:9",
    credentials=CREDENTIALS,
    coordinator_pid=os.getpid(),
    world_size=1,
    log_path="",
)


def write(**changes):
    """Give what writes a connection file with other facts."""
    content = msgspec.json.encode(msgspec.structs.replace(INFO, **changes))
    return lambda path: path.write_bytes(content)


def listen(path):
    """Bind a socket to a path, by way of its folder: a whole path may be too long."""
    with socket.socket(socket.AF_UNIX) as bound, contextlib.chdir(path.parent):
        bound.bind(path.name)


NO_FILES = {
    "FIFO": os.mkfifo,
    "directory": lambda path: path.mkdir(),
    "loop of links": lambda path: path.symlink_to(path),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "socket": listen,
    "bytes": lambda path: path.write_bytes(bytes(range(256))),
    "nested": lambda path: path.write_bytes(b'{"hosts":' + b"[" * 100_000),
}
FILES = {
    "pid 2**31": write(coordinator_pid=1 << 31),
    "pid 2**63": write(coordinator_pid=(1 << 63) - 1),
    "pid 0": write(coordinator_pid=0),
    "pid -1": write(coordinator_pid=-1),
    "another name": write(name="other"),
}


@pytest.fixture
def place(home):
    """Where the connection file of `odd` is looked for; it is removed in the end."""
    path = connection_path("odd")
    yield path
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("kind", [*NO_FILES, *FILES])
def test_what_is_no_connection_file_holds_nobody_up(place, within, kind):
    {**NO_FILES, **FILES}[kind](place)
    with within(1):
        assert Cluster.running() == []
        with pytest.raises(NoCluster):
            Cluster.attach("odd")
    if os.path.lexists(place):  # that of a process that is gone was removed
        with within(1), pytest.raises(UsageError, match=r"odd\.json"):
            Cluster.start("localhost:1", name="odd")


@pytest.mark.parametrize(
    "changes",
    [{"credentials": Credentials("", KeyPair("é", "\0"))}, {"clients_address": "tcp:/\0/nowhere"}],
    ids=["keys", "address"],
)
def test_a_damaged_connection_file_of_a_process_that_lives_is_named(place, within, changes):
    write(**changes)(place)
    with within(1), pytest.raises(DistError, match=r"odd\.json.* damaged"):
        Cluster.attach("odd")


def test_a_start_without_a_name_passes_over_what_holds_one(start):
    connection_path("cluster-1").symlink_to(connection_path("cluster-1"))
    os.mkfifo(connection_path("cluster-2"))
    try:
        cluster = start("localhost:1")
        assert cluster.name == "cluster-3"
        assert Cluster.running() == ["cluster-3"]
    finally:
        connection_path("cluster-1").unlink()
        connection_path("cluster-2").unlink()


@pytest.mark.parametrize("option", ["spec", "hostfile", "template"])
def test_a_named_file_that_is_none_is_told_at_once(home, tmp_path, within, option):
    job = {"launcher": "slurm", "nodes": 1} if option == "template" else {}
    for number, (kind, make) in enumerate(NO_FILES.items()):
        path = tmp_path / f"odd-{number}"
        make(path)
        with within(1), pytest.raises(UsageError) as caught:
            Cluster.start(**{option: path}, **job)
        assert kind == "nested" or path.name in str(caught.value), kind
    for name in ("a\0b", "a" * 5000, "\udcff"):
        with within(1), pytest.raises(UsageError):
            Cluster.start(**{option: name}, **job)


@pytest.mark.parametrize("option", ["cwd", "wheelhouse", "job_dir", "save_on_preempt"])
def test_a_directory_that_is_none_is_told_at_once(home, tmp_path, within, option):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    job = {"launcher": "slurm", "nodes": 1} if option == "job_dir" else {}
    for name in ("a\0b", "\udcff", *([loop, "a" * 5000] if option != "save_on_preempt" else [])):
        with within(1), pytest.raises(UsageError):
            Cluster.start(**{option: name}, **job)


@pytest.mark.parametrize("kind", [kind for kind in NO_FILES if kind != "link to nothing"])
def test_an_agent_is_told_that_its_join_file_is_none(home, tmp_path, kind):
    path = os.fsencode(tmp_path) + b"/\xff"
    NO_FILES[kind](tmp_path / os.fsdecode(b"\xff"))
    words = [sys.executable, "-m", "jupyter_dist.agent", "--join", path]
    ended = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert b"join file" in ended.stderr
    assert b"Traceback" not in ended.stderr


def run_in(folder, *words, **environ):
    """Run a program that starts a cluster, with these paths."""
    return subprocess.run(
        [sys.executable, *(words or ("-c", START))],
        cwd=folder,
        env={**os.environb, **{key.encode(): value for key, value in environ.items()}},
        capture_output=True,
        timeout=100,
        check=False,
    )


def test_names_that_are_not_utf_8_work_or_are_named(home, tmp_path):
    folder = os.fsencode(tmp_path) + b"/odd-\xff"
    os.mkdir(folder)
    program = folder + b"/program-\xfe.py"
    with open(program, "w") as file:
        file.write(START)
    ended = run_in(tmp_path, program, ODD=b"\xff", JUPYTER_RUNTIME_DIR=folder, HOME=folder)
    assert (ended.stdout, ended.stderr) == (b"works\n", b"")
    for place, environ, what in ((folder, {}, b"cwd"), (tmp_path, {"TMPDIR": folder}, b"TMPDIR")):
        ended = run_in(place, **environ)
        last = ended.stderr.splitlines()[-1]
        assert b"UsageError" in last
        assert what in last
        assert b"not UTF-8" in last


@pytest.mark.parametrize(("name", "is_tcp"), [("short", False), ("long" * 20, True)])
def test_clients_and_ranks_here_come_by_tcp_only_where_the_path_of_a_socket_is_too_long(
    home, monkeypatch, name, is_tcp
):
    with tempfile.TemporaryDirectory(dir="/tmp") as top:  # tmp_path may be long itself
        folder = Path(top, name)
        folder.mkdir()
        monkeypatch.setenv("TMPDIR", str(folder))
        cluster = Cluster.start("localhost:2")
        try:
            ports = set(ports_of(coordinator_of(cluster)))
            for process in (psutil.Process(), *engines_of(cluster)):
                dialled = {each.raddr.port for each in process.net_connections("tcp") if each.raddr}
                assert bool(dialled & ports) == is_tcp
            assert values(cluster.run("rank")) == ["0", "1"]
        finally:
            cluster.stop()
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", ["FIFO", "loop of links", "bytes", "link to nothing"])
def test_a_folder_for_connection_files_that_cannot_be_made_is_named(
    home, tmp_path, monkeypatch, within, kind
):
    folder = tmp_path / "folder"
    NO_FILES[kind](folder)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder))
    with within(1), pytest.raises(UsageError, match=r"folder.* JUPYTER_RUNTIME_DIR"):
        Cluster.start("localhost:1")
    assert Cluster.running() == []
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / ("x" * 300)))
    with within(1), pytest.raises(UsageError, match=os.strerror(errno.ENAMETOOLONG)):
        Cluster.start("localhost:1")


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_time_that_does_not_end_is_not_accepted(home, value):
    with pytest.raises(UsageError, match=r"timeout_s.*finite"):
        Cluster.start(timeout_s=value)


def test_odd_text_and_large_numbers_are_answered_at_once(four, within):
    large = 1 << 70
    with within(3):
        for call in (four.pull, four.who, four.inspect, four.run):
            with contextlib.suppress(DistError, SyntaxError):
                call("\udcff")
        for call in (
            lambda: four.run("1", label=large),
            lambda: four.complete("", large),
            lambda: four.collectives(last=-large),
            lambda: four.pull("x", ranks=large),
        ):
            with pytest.raises(UsageError):
                call()
    assert four.run("1 + 1")[3].value_repr == "2"
