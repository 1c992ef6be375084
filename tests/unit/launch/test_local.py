from types import SimpleNamespace

import pytest

from jupyter_dist.launch import local
from jupyter_dist.launch.local import LocalLauncher, early_host
from jupyter_dist.launch.own_agent import EarlyAgent, agent_arguments
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec

HERE = HostSpec("here", launcher="local")


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ((HERE,), "here"),
        ((HostSpec("far", launcher="ssh"), HERE), "here"),
        ((HostSpec("far", launcher="ssh"),), ""),
        ((HostSpec("here", launcher="local", python="/other/python"),), ""),
        ((HostSpec("here", launcher="local", setup=("module load x",)),), ""),
    ],
)
def test_an_agent_can_be_early_where_nothing_is_to_be_done_before(hosts, expected):
    assert early_host(ClusterSpec(name="x", hosts=hosts)) == expected


def test_an_early_agent_is_taken_over_once_and_by_its_own_host(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(local, "start_agent", lambda _, log: started.append(log))
    early = EarlyAgent.__new__(EarlyAgent)
    early.host, early.process = "here", object()
    launcher = LocalLauncher(tmp_path, "fork", early)
    launcher.start(HostSpec("127.0.0.1", launcher="local"))
    assert launcher.start(HERE)._process is early.process
    launcher.start(HERE)
    assert started == [f"{tmp_path}/agent-127.0.0.1.log", f"{tmp_path}/agent-here.log"]


def test_only_a_start_method_that_was_asked_for_is_told_to_an_agent():
    assert "--start-method" not in agent_arguments("auto"), "it knows its own system"
    assert "--start-method spawn" in " ".join(agent_arguments("spawn"))


def test_how_long_an_agent_had_no_core_is_that_of_its_process(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "start_agent", lambda *_: SimpleNamespace(pid=17))
    monkeypatch.setattr(local, "all_waited_s", {17: 2.5}.get)
    assert LocalLauncher(tmp_path, "fork").start(HERE).waited_s() == 2.5
