"""The proxy, with the ssh that it runs and what is forwarded by it in the hands of the test."""

import threading
from pathlib import Path

import pytest

from jupyter_dist.errors import StartFailed
from jupyter_dist.launch.files.connection_file import ConnectionInfo, StartReport, find_connection
from jupyter_dist.launch.proxy import proxy as module
from jupyter_dist.launch.proxy.conversation import END, ProxyOrder, RemoteOrder
from jupyter_dist.launch.proxy.last_word import LastWord
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
    clients_path="/there/clients",
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
    found = find_connection("demo")
    assert (found.clients_address[:6], found.clients_path) == ("ipc://", "")
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


class Job:
    """The job that has the coordinator in it, as its proxy sees it."""

    label, runtime_dir = "Slurm job 12", "/there"

    def __init__(self, _spec, _log_dir, on_end):
        self.on_end, self.told = on_end, []

    def start(self, host, _on_stage, _given_up):
        return HostSpec("node7", ssh=host.ssh), FAR

    def end(self, *, is_failed=False):
        self.told.append("cancel" if is_failed else "end")
        return "" if is_failed else "Slurm job 12 was cancelled"

    def let_go(self):
        self.told.append("let go")


@pytest.fixture
def in_job(ssh, monkeypatch):
    """Return a proxy whose coordinator is in a job."""
    monkeypatch.setattr(module, "CoordinatorJob", Job)
    spec = ClusterSpec(name="demo", hosts=(HostSpec("slurm-1", launcher="join"),))
    order = ProxyOrder(HostSpec("job", launcher="join"), RemoteOrder("demo", spec))
    return Proxy(order, ssh.folder, ssh.folder / "proxy.log")


def test_the_end_of_a_job_ends_its_proxy_whose_last_word_says_how(in_job, ssh):
    info = in_job.open(ignore)
    assert info.coordinator_host == "node7"
    word = LastWord(info.log_path)
    threading.Timer(0.05, in_job._job.on_end).start()
    in_job.serve()
    in_job.close()
    assert in_job._job.told == ["end"]
    assert word.read() == "Slurm job 12 was cancelled"
    assert find_connection("demo") is None


def test_who_lets_go_of_a_job_does_not_end_it(in_job):
    in_job.open(ignore)
    in_job.leave()
    in_job.serve()
    in_job.close()
    assert in_job._job.told == ["let go"]


def test_a_node_that_ssh_does_not_reach_has_its_job_cancelled(in_job, ssh):
    ssh.ways = [StartFailed("node7: no way.")]
    with pytest.raises(StartFailed, match=r"no way.*Slurm job 12.*--ssh"):
        in_job.open(ignore)
    in_job.close()
    assert in_job._job.told == ["cancel"]
