"""What a silence of the coordinator means, where it is here and where it is elsewhere."""

import os
import re
import stat

import pytest
from fakes.connections import known

from jupyter_dist.cluster.connection import connection
from jupyter_dist.cluster.connection.connection import SILENCE_LIMIT_S, Connection
from jupyter_dist.errors import ClusterGone, ClusterUnreachable, WireError
from jupyter_dist.launch.files.connection_file import path_of
from jupyter_dist.launch.proxy.outage import Outage, tell_outage


class SilentDealer:
    """Nothing comes, for a time that a test says."""

    silence = 0.0

    def __init__(self, address, keys, *_more):
        self.way = address, keys
        self.sent = []

    def wait(self, _timeout_s):
        return False

    def silence_s(self):
        return self.silence


class NoCore:
    """The coordinator, or what stands for it, always has a core."""

    def __init__(self, _pid):
        pass

    def count(self, silence_s):
        return silence_s


@pytest.fixture
def lines(monkeypatch, tmp_path):
    """Two lines: to a coordinator here, and to one elsewhere."""
    monkeypatch.setattr(connection, "Dealer", SilentDealer)
    monkeypatch.setattr(connection, "Patience", NoCore)
    log_path = str(tmp_path / "log")
    there = known(log_path=log_path, coordinator_host="login")
    return Connection(known(log_path=log_path)), Connection(there)


@pytest.mark.parametrize(
    ("mode", "name", "is_there"),
    [
        (0o700, "clients", True),
        (0o700, "none", False),  # as in a container
        (0o710, "clients", False),
        (0o701, "clients", False),
        (0o700, "cli\0ents", False),  # a damaged file
        (0o700, "", False),
    ],
)
def test_keys_are_left_out_only_at_a_socket_where_no_other_user_can_be(
    lines, tmp_path, mode, name, is_there
):
    tmp_path.chmod(mode)
    path = tmp_path / "clients"
    os.mknod(path, stat.S_IFSOCK | 0o600)
    info = known(clients_path=f"{tmp_path}/{name}" if name else "")
    here = (f"ipc://{path}", None)
    there = (info.clients_address, info.credentials)
    assert Connection(info)._dealer.way == (here if is_there else there)


def hear(line, silence_s, **options):
    line._dealer.silence = silence_s
    return list(line.receive(0.0, **options))


def test_a_short_silence_is_waited_out(lines):
    assert [hear(line, SILENCE_LIMIT_S) for line in lines] == [[], []]


def test_after_a_long_one_a_coordinator_here_is_gone_and_one_elsewhere_out_of_reach(
    lines, tmp_path
):
    here, there = lines
    tell_outage(tmp_path / "log", Outage(0.0, "it refuses (port 22)."))
    with pytest.raises(ClusterGone):
        hear(here, SILENCE_LIMIT_S + 1)
    with pytest.raises(ClusterUnreachable, match=rf"login is out of .*22.*kill {os.getpid()}`"):
        hear(there, SILENCE_LIMIT_S + 1)
    assert hear(there, SILENCE_LIMIT_S + 1, waits_out_breaks=True) == []


def test_what_a_coordinator_said_before_it_ended_is_read_first(lines, monkeypatch):
    here, _ = lines
    monkeypatch.setattr(connection, "process_lives", lambda _pid: False)
    comes = iter([False, True, True, False, False])  # the first one just before we look
    monkeypatch.setattr(here._dealer, "wait", lambda _timeout_s: next(comes))
    monkeypatch.setattr(here._dealer, "receive", lambda: ["why"], raising=False)
    assert [hear(here, 1.0), hear(here, 1.0)] == [[], ["why"]]
    with pytest.raises(ClusterGone):
        hear(here, 1.0)


def test_a_break_is_described_as_long_as_it_lasts(lines, tmp_path):
    here, there = lines
    tell_outage(tmp_path / "log", Outage(0.0, "refused."))
    here._dealer.silence = there._dealer.silence = 1.0
    assert here.describe_break() == ""
    assert there.describe_break().endswith("(refused)")
    there._dealer.silence = 0.0
    assert there.describe_break() == ""


def test_where_what_stands_for_a_coordinator_elsewhere_has_ended_the_way_back_is_told(
    lines, monkeypatch
):
    monkeypatch.setattr(connection, "process_lives", lambda _pid: False)
    here, there = lines
    with pytest.raises(ClusterGone, match="its coordinator has ended") as caught:
        hear(here, 1.0)
    assert "%dist_attach" not in str(caught.value)
    with pytest.raises(ClusterGone, match="%dist_attach demo --coordinator login"):
        hear(there, 1.0)


def test_what_cannot_be_connected_by_names_the_file_that_says_so(monkeypatch, tmp_path):
    def refuse(*_):
        raise WireError("no key")

    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(connection, "Dealer", refuse)
    for host in ("", "login"):
        info = known(coordinator_host=host)
        with pytest.raises(WireError, match=re.escape(repr(str(path_of(info))))):
            Connection(info)
