"""The proxy, with the ssh that it runs and what is forwarded by it in the hands of the test."""

import threading
from pathlib import Path

import pytest

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.files.connection_file import ConnectionInfo, StartReport, find_connection
from jupyter_dist.launch.proxy import proxy as module
from jupyter_dist.launch.proxy.conversation import END, ProxyOrder, RemoteOrder
from jupyter_dist.launch.proxy.outage import read_outage
from jupyter_dist.launch.proxy.proxy import Proxy
from jupyter_dist.launch.proxy.remote_session import LoginRefused
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec
from jupyter_dist.protocol.credentials import Credentials, KeyPair

FAR = ConnectionInfo(
    name="demo",
    clients_address="tcp://127.0.0.1:4711",
    credentials=Credentials("s" * 40, KeyPair("p" * 40, "q" * 40)),
    coordinator_pid=7,
    world_size=1,
    log_path="/there/log",
)


class Session:
    """One connection, which goes as `ways` say: a report, or the error that comes of it."""

    def __init__(self, ways, lost_word=None):
        self._report, self._lost_word = ways.pop(0) if ways else StartReport(FAR), lost_word
        self.said, self._over = [], threading.Event()
        self.has_ended = isinstance(self._report, StartReport) and bool(self._report.problem)

    def read_report(self, _on_stage=None):
        if isinstance(self._report, Exception):
            raise self._report
        return self._report

    def keep(self):
        if self._lost_word is not None:
            raise self._lost_word

    def say(self, word):
        self.said.append(word)

    def wait(self):
        assert self.has_ended or self._over.wait(20)

    def explain(self):
        return "the connection broke. See."

    def terminate(self):
        self._over.set()

    def close(self):
        self._over.set()


class Ssh:
    """What is dialed, in order."""

    def __init__(self, tmp_path, monkeypatch):
        self.ways, self.lost_word, self.sessions = [], None, []
        self.folder = tmp_path
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
        (tmp_path / "runtime").mkdir()
        monkeypatch.setattr(module, "RemoteSession", self._dial)
        monkeypatch.setattr(module, "explain_no_way", lambda *_: "")

    def _dial(self, *_):
        self.sessions.append(Session(self.ways, self.lost_word))
        return self.sessions[-1]

    def proxy(self, *, starts=True):
        """Return a proxy of this ssh."""
        spec = ClusterSpec(name="demo", hosts=(HostSpec("a"),)) if starts else None
        order = ProxyOrder(HostSpec("login"), RemoteOrder("demo", spec))
        return Proxy(order, self.folder, Path(self.folder / "proxy.log"))


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    return Ssh(tmp_path, monkeypatch)


def ignore(_report):
    pass


def test_clients_here_find_the_cluster_until_the_proxy_ends(ssh):
    proxy = ssh.proxy()
    assert proxy.open(ignore).coordinator_host == "login"
    assert find_connection("demo") is not None
    proxy.close()
    assert find_connection("demo") is None


def test_a_start_whose_keeping_was_not_heard_fails_and_is_ended(ssh):
    ssh.lost_word = StartFailed("login: the connection broke. See.")
    proxy = ssh.proxy()
    with pytest.raises(StartFailed, match="broke"):
        proxy.open(ignore)
    proxy.close()
    assert ssh.sessions[-1].said == [END]
    assert find_connection("demo") is None


class NoTime(threading.Event):
    """The end that a proxy awaits between two attempts to dial; notes how long, and takes none."""

    def __init__(self):
        super().__init__()
        self.pauses_s = []

    def wait(self, timeout=None):
        self.pauses_s.append(timeout)
        return self.is_set()


def test_whose_login_is_refused_does_not_dial_again_soon(ssh):
    no_route, refused = StartFailed("login: no route."), LoginRefused("login: not let in.")
    found, ended = StartReport(FAR), StartReport(problem="no such cluster")
    ssh.ways = [found, found, no_route, refused, no_route, refused, ended]
    proxy = ssh.proxy(starts=False)
    proxy.open(ignore)
    proxy._over = NoTime()
    ssh.sessions[-1].close()
    proxy.serve()
    assert proxy._over.pauses_s == [0.5, 1.0, 300.0, 15.0, 300.0]
    assert "5 minutes" in read_outage(str(ssh.folder / "proxy.log")).why
    proxy.close()
