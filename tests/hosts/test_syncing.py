"""Code gets to hosts through the streams of their agents, however these were started."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from jupyter_dist.errors import SyncFailed
from jupyter_dist.launch.files.join_file import join_path
from tests.processes.leftovers import wait_until

from .clusters import values

HOSTS = ("nodeA", "nodeB", "nodeC")
THREE = "nodeA:1,nodeB:1,nodeC:1"
LARGE = (8 << 20) + 17
"""Takes several chunks."""


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


def digests(project):
    """What `CHECK` gives where the copy is the same."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:8]
        for path in sorted(project.iterdir())
    }


def assert_same_everywhere(cluster, project):
    ranks = values(cluster.run(CHECK))
    assert [eval(rank) for rank in ranks] == [digests(project)] * cluster.world_size


def test_code_is_the_same_on_every_host_after_each_sync(start, project):
    cluster = start(THREE)
    result = cluster.sync("mypkg")
    assert (result.hosts, result.changed_count, result.notes) == (HOSTS, 5, ())
    assert_same_everywhere(cluster, project)
    (project / "model.py").write_text("def f():\n    return 2\n")
    result = cluster.sync("mypkg", reload=True)
    assert result.changed_count == 2  # the link's file has changed, too
    assert values(cluster.run("mypkg.link.f()")) == ["2"] * 3


@pytest.mark.slow
def test_the_user_of_the_host_owns_the_copies(start, lab, project):
    cluster = start("alice@nodeA:1")
    project.chmod(0o755)
    cluster.sync("mypkg")
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
    (note,) = result.notes
    assert note.startswith("nodeB is lost: ")


@pytest.mark.slow
def test_a_host_that_goes_away_meanwhile_is_named_and_nothing_changes(
    start, lab, project, in_background
):
    cluster = start(THREE)
    cluster.sync("mypkg/model.py")
    (project / "model.py").write_text("new = 1")
    lab.drop("nodeB")
    syncing = in_background(cluster.sync, ["mypkg/model.py", "mypkg"])
    with pytest.raises(SyncFailed) as caught:
        syncing.result(40)
    assert list(caught.value.problems) == ["nodeB"]
    assert "agent" in caught.value.reason
    folder = "os.path.dirname(model.__file__)"
    code = f"import model, os\n(hasattr(model, 'new'), 'mypkg' in os.listdir({folder}))"
    assert values(cluster.run(code, ranks=[0, 2])) == ["(False, False)"] * 2


@pytest.mark.slow
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
        assert result.hosts == ("nodeA", "nodeB")
        assert_same_everywhere(cluster, project)
        cluster.stop()
    finally:
        agent.wait(20)
