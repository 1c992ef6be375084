"""Code gets to hosts: over rsync where it can, else through their agents, and alike either way."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from jupyter_dist.cluster import moving
from jupyter_dist.cluster.sync import RSYNC_FROM_BYTES
from jupyter_dist.errors import SyncFailed
from jupyter_dist.launch.join_file import join_path
from tests.processes.leftovers import wait_until

from .clusters import values

HOSTS = ("nodeA", "nodeB", "nodeC")
THREE = "nodeA:1,nodeB:1,nodeC:1"
LARGE = RSYNC_FROM_BYTES + 17


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A package next to the notebook, with a large file and a link in it."""
    path = tmp_path / "notebook" / "mypkg"
    path.mkdir(parents=True)
    monkeypatch.chdir(path.parent)
    (path / "__init__.py").touch()
    (path / "model.py").write_text("def f():\n    return 1\n")
    (path / "table.bin").write_bytes(np.random.default_rng(1).bytes(LARGE))
    (path / "ä file.txt").write_text("not only letters\n")
    os.symlink("model.py", path / "link.py")
    return path


CHECK = """
import hashlib, os, mypkg, mypkg.link
folder = os.path.dirname(mypkg.__file__)
def digest(path):
    with open(os.path.join(folder, path), 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()[:8]
{path: digest(path) for path in sorted(os.listdir(folder)) if '.' in path}
"""
NAMES = """
import mypkg, os
sorted(name for name in os.listdir(mypkg.__path__[0]) if name != '__pycache__')
"""


def digests(project):
    """What `CHECK` gives where the copy is the same."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:8]
        for path in sorted(project.iterdir())
    }


def assert_same_everywhere(cluster, project):
    ranks = values(cluster.run(CHECK))
    assert [eval(rank) for rank in ranks] == [digests(project)] * cluster.world_size


@pytest.fixture
def hide_rsync(lab):
    """Let logins on a host find nothing but a shell."""

    def hide(host):
        lab.run(host, ["mkdir", "/root/bin"])
        lab.run(host, ["ln", "-s", "/bin/sh", "/root/bin/sh"])
        lab.write(host, "/root/.bashrc", "PATH=/root/bin\n")

    return hide


def test_much_code_goes_by_rsync_and_a_little_through_the_agents(start, project):
    cluster = start(THREE)
    result = cluster.sync("mypkg")
    assert result.over_rsync == HOSTS
    assert (result.changed_count, result.notes) == (5, ())
    assert_same_everywhere(cluster, project)
    (project / "model.py").write_text("def f():\n    return 2\n")
    result = cluster.sync("mypkg", reload=True)
    assert (result.over_rsync, result.changed_count) == ((), 2)  # the link's file has changed, too
    assert values(cluster.run("mypkg.link.f()")) == ["2"] * 3


@pytest.mark.slow
def test_what_rsyncs_have_sent_is_told_beside_their_hosts(start, project, monkeypatch):
    monkeypatch.setattr(moving, "TELL_AFTER_S", 0.0)
    monkeypatch.setattr(moving, "TELL_INTERVAL_S", 0.0)
    (project / "large.bin").write_bytes(os.urandom(64 << 20))
    told = []
    assert start(THREE).sync("mypkg", on_moved=told.append).over_rsync == HOSTS
    assert all(each.where.startswith("rsync to node") for each in told)
    size = sum(file.stat().st_size for file in project.rglob("*") if file.is_file())
    known = [each for each in told if each.moved_bytes]
    assert {each.total_bytes for each in known} == {3 * size}
    assert [each.moved_bytes for each in known] == sorted(each.moved_bytes for each in known)
    assert known[-1].moved_bytes <= 3 * size


@pytest.mark.slow
def test_rsync_has_no_word_in_what_is_removed(start, project):
    cluster = start(THREE)
    cluster.sync("mypkg")
    (project / "model.py").unlink()
    (project / "link.py").unlink()
    (project / "table.bin").write_bytes(np.random.default_rng(2).bytes(LARGE))
    result = cluster.sync("mypkg")
    assert (result.over_rsync, result.changed_count, result.removed_count) == (HOSTS, 1, 2)
    assert values(cluster.run(NAMES)) == ["['__init__.py', 'table.bin', 'ä file.txt']"] * 3


@pytest.mark.slow
def test_a_name_that_rsync_takes_for_a_comment_arrives(start, project):
    (project / "#model.py#").write_text("x = 1")
    cluster = start("nodeA:1")
    assert cluster.sync("mypkg/").over_rsync == ("nodeA",)
    found = "import os, sys; any(os.path.exists(f'{place}/#model.py#') for place in sys.path)"
    assert values(cluster.run(found)) == ["True"]


@pytest.mark.slow
def test_a_host_without_rsync_gets_the_same_through_its_agent(start, lab, project, hide_rsync):
    hide_rsync("nodeB")
    cluster = start(THREE)
    result = cluster.sync("mypkg")
    assert (result.over_rsync, result.notes) == (("nodeA", "nodeC"), ())
    assert_same_everywhere(cluster, project)


def test_without_rsync_here_everything_goes_through_the_agents(start, project, monkeypatch):
    cluster = start(THREE)
    monkeypatch.setenv("PATH", "/nowhere")
    result = cluster.sync("mypkg")
    assert (result.over_rsync, result.changed_count) == ((), 5)
    assert_same_everywhere(cluster, project)


def test_where_rsync_fails_the_agent_gets_the_files_and_the_user_a_note(start, lab, project):
    lab.write("nodeB", "/root/bin/rsync", "#!/bin/sh\necho it is broken >&2\nexit 3\n", 0o755)
    lab.write("nodeB", "/root/.bashrc", "PATH=/root/bin:$PATH\n")
    cluster = start(THREE)
    lab.kill_sshd("nodeC")
    result = cluster.sync("mypkg")
    assert result.over_rsync == ("nodeA",)
    broken, refused = result.notes
    assert broken.startswith("nodeB: rsync ended with status ")
    assert broken.endswith(" (it is broken); its agent was sent the files instead")
    assert refused.startswith("nodeC: rsync ended with status ")
    assert "Connection refused" in refused
    assert_same_everywhere(cluster, project)


@pytest.mark.slow
def test_the_user_of_the_host_owns_the_copies(start, lab, project):
    cluster = start("alice@nodeA:1")
    project.chmod(0o755)
    assert cluster.sync("mypkg").over_rsync == ("nodeA",)
    assert_same_everywhere(cluster, project)
    owners = "import os\n{os.stat(path).st_uid for path, _, _ in os.walk(folder)} == {os.getuid()}"
    assert values(cluster.run(owners)) == ["True"]


@pytest.mark.slow
def test_a_host_that_is_lost_is_left_out_and_named(start, lab, project):
    cluster = start(THREE)
    lab.drop("nodeB")
    wait_until(lambda: "lost" in cluster.status().ranks.values(), 20, "nodeB is lost")
    result = cluster.sync("mypkg")
    assert result.hosts == ("nodeA", "nodeC")
    assert result.notes == ("nodeB is lost: it has no new code",)


@pytest.mark.slow
def test_a_host_that_goes_away_meanwhile_is_named_and_nothing_changes(
    start, lab, project, in_background, monkeypatch
):
    cluster = start(THREE)
    cluster.sync("mypkg/model.py")
    (project / "model.py").write_text("new = 1")
    lab.drop("nodeB")
    monkeypatch.setenv("PATH", "/nowhere")  # no rsync here; the lab, too, needs the real one
    syncing = in_background(cluster.sync, ["mypkg/model.py", "mypkg"])
    with pytest.raises(SyncFailed) as caught:
        syncing.result(40)
    assert (caught.value.host, caught.value.reason) == ("nodeB", "its agent is gone")
    assert "Nothing was changed on any host" in str(caught.value)
    folder = "os.path.dirname(model.__file__)"
    code = f"import model, os\n(hasattr(model, 'new'), 'mypkg' in os.listdir({folder}))"
    assert values(cluster.run(code, ranks=[0, 2])) == ["(False, False)"] * 2


def test_a_host_that_joined_by_itself_gets_code_through_its_agent(
    start, lab, project, in_background
):
    cluster = in_background(start, "nodeA:1,join:1", name="demo")
    path = join_path("demo")
    wait_until(path.exists, 20, "the join file is there")
    lab.write("nodeB", "/root/join", path.read_text(), 0o600)
    words = [sys.executable, "-m", "jupyter_dist.agent", "--join", "/root/join", "--name", "nodeB"]
    agent = subprocess.Popen(lab.command("nodeB", [*words, "--slots", "1"]))
    try:
        cluster = cluster.result(40)
        result = cluster.sync("mypkg")
        assert (result.hosts, result.over_rsync) == (("nodeA", "nodeB"), ("nodeA",))
        assert_same_everywhere(cluster, project)
        cluster.stop()
    finally:
        agent.wait(20)
