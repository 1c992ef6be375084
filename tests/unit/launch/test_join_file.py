import io
import os

import msgspec
import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.base import Invitation, Ports
from jupyter_dist.launch.connection_file import connection_path
from jupyter_dist.launch.join_file import STDIN, join_path, read_join_file, write_join_file

INVITATION = Invitation(
    wire="jupyter-dist/1",
    cluster="demo",
    host="",
    homes=("10.0.0.1", "fd00::1"),
    ports=Ports(1, 2, 3),
    dial_timeout_s=20.0,
    ca_certificate=b"--- authority ---\n",
    certificate=b"\x00\xff",
    private_key=b"secret",
    good_until_s=1e9,
)


@pytest.fixture
def runtime(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    return tmp_path / "runtime"


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("name", ["demo", "a.b", "run.json"])
def test_it_lies_beside_the_connection_file_of_its_cluster(runtime, name):
    path = join_path(name)
    assert path == runtime / f"jupyter-dist-{name}.join"
    assert path.parent == connection_path(name).parent


def test_what_is_written_is_read(runtime):
    path = join_path("demo")
    write_join_file(path, INVITATION)
    assert read_join_file(path) == INVITATION


def test_only_its_owner_can_read_it(runtime):
    path = join_path("demo")
    before = os.umask(0)
    try:
        write_join_file(path, INVITATION)
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700


def test_one_that_is_left_is_replaced_whatever_it_allowed(runtime):
    path = join_path("demo")
    runtime.mkdir()
    path.write_text("x" * 100_000)
    path.chmod(0o644)
    write_join_file(path, INVITATION)
    assert read_join_file(path) == INVITATION
    assert mode(path) == 0o600
    assert list(runtime.iterdir()) == [path]


def test_keys_are_never_written_into_a_file_that_somebody_has_put_there(runtime):
    path = join_path("demo")
    runtime.mkdir()
    theirs = [path.with_name(f"{path.name}.{os.getpid()}.draft"), path]
    for each in theirs:
        each.touch()
        each.chmod(0o666)
    held = [each.open("rb") for each in theirs]
    try:
        write_join_file(path, INVITATION)
        assert [file.read() for file in held] == [b"", b""]
    finally:
        for file in held:
            file.close()
    assert mode(path) == 0o600


def test_when_it_cannot_be_written_nothing_is_left(runtime):
    path = join_path("demo")
    path.mkdir(parents=True)
    with pytest.raises(OSError, match=r"demo\.join"):
        write_join_file(path, INVITATION)
    assert list(runtime.iterdir()) == [path]


def test_a_file_that_is_not_there_says_where_one_comes_from(tmp_path):
    path = tmp_path / "x.join"
    with pytest.raises(UsageError) as caught:
        read_join_file(path)
    assert str(caught.value) == (
        f"join file '{path}' cannot be read: No such file or directory. %dist_start --hosts "
        "join:N writes one and says where; it is gone once N agents have joined, or the start is "
        "over."
    )


def test_a_directory_is_no_join_file(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_join_file(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"\xff\xfe", b"{}", b"[]", msgspec.json.encode(INVITATION)[:-10]],
    ids=["empty", "text", "no text", "empty object", "list", "half"],
)
def test_something_else_is_no_join_file(tmp_path, content):
    path = tmp_path / "x.join"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"cannot be read: it is not a join file \(.+\)\. %dist"):
        read_join_file(path)


def test_it_can_come_on_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(msgspec.json.encode(INVITATION))))
    assert read_join_file(STDIN) == INVITATION


def test_nothing_on_standard_input_is_no_join_file(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(UsageError, match="join file '-' cannot be read: it is not a join file"):
        read_join_file(STDIN)
