import errno
import io
import os

import msgspec
import pytest

from jupyter_dist.errors import UsageError
from jupyter_dist.launch.files.connection_file import connection_path
from jupyter_dist.launch.files.join_file import STDIN, join_path, read_join_file, write_join_file
from jupyter_dist.launch.launcher import JoinTicket, Ports

INVITATION = JoinTicket(
    wire="jupyter-dist/4",
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
def path():
    return join_path("demo")


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("name", ["demo", "a.b", "run.json"])
def test_it_lies_beside_the_connection_file_of_its_cluster(runtime, name):
    path = join_path(name)
    assert path == runtime / f"jupyter-dist-{name}.join"
    assert path.parent == connection_path(name).parent


def test_what_is_written_is_read_and_only_its_owner_can_read_it(path):
    before = os.umask(0)
    try:
        write_join_file(path, INVITATION)
    finally:
        os.umask(before)
    assert read_join_file(path) == INVITATION
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700


def test_one_that_is_left_is_replaced_whatever_it_allowed(runtime, path):
    runtime.mkdir()
    path.write_text("x" * 100_000)
    path.chmod(0o644)
    write_join_file(path, INVITATION)
    assert read_join_file(path) == INVITATION
    assert mode(path) == 0o600
    assert list(runtime.iterdir()) == [path]


def test_keys_are_never_written_into_a_file_that_somebody_has_put_there(runtime, path):
    runtime.mkdir()
    theirs = [path.with_name(f"{path.name}.{os.getpid()}.draft"), path]
    for each in theirs:
        each.touch()
        each.chmod(0o666)
    with theirs[0].open("rb") as draft, theirs[1].open("rb") as place:
        write_join_file(path, INVITATION)
        assert [draft.read(), place.read()] == [b"", b""]
    assert mode(path) == 0o600


def test_when_it_cannot_be_written_nothing_is_left(runtime, path):
    path.mkdir(parents=True)
    with pytest.raises(OSError, match=r"demo\.join"):
        write_join_file(path, INVITATION)
    assert list(runtime.iterdir()) == [path]


@pytest.mark.parametrize(("name", "number"), [("x.join", errno.ENOENT), ("", errno.EISDIR)])
def test_what_is_not_there_or_no_file_says_where_one_comes_from(tmp_path, name, number):
    path = tmp_path / name
    with pytest.raises(UsageError) as caught:
        read_join_file(path)
    for fact in (f"'{path}'", os.strerror(number), "%dist_start --hosts join:N"):
        assert fact in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"\xff\xfe", b"{}", b"[]", msgspec.json.encode(INVITATION)[:-10]],
    ids=["empty", "text", "no text", "empty object", "list", "half"],
)
def test_something_else_is_no_join_file(tmp_path, monkeypatch, content):
    path = tmp_path / "x.join"
    path.write_bytes(content)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    for place in (path, STDIN):
        with pytest.raises(UsageError, match=r"join file \(.+\)\. %dist"):
            read_join_file(place)


def test_it_can_come_on_standard_input(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(msgspec.json.encode(INVITATION))))
    assert read_join_file(STDIN) == INVITATION
