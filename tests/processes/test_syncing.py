"""Code gets to the ranks: copied, imported, changed, loaded again; and what goes wrong is told."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from jupyter_dist.cluster import transfer as moving
from jupyter_dist.cluster.code.sync import _Sync
from jupyter_dist.errors import RankRaised, SyncFailed, UsageError
from tests.facts import assert_tells

from .leftovers import agents_of, wait_until
from .programs import dist
from .results import values


class Project:
    """A folder of the notebook's machine with a package in it."""

    def __init__(self, root, name):
        self.name = name
        self.path = root / name
        self.path.mkdir(parents=True)
        self.write("__init__.py", "")

    def write(self, path, text):
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def project(tmp_path, request, monkeypatch):
    """A package of this test's own, because modules stay imported; the notebook is next to it."""
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path, request.node.name.removeprefix("test_"))


def test_ranks_can_import_what_was_copied(four, project):
    project.write("model.py", "def f():\n    return 'copied'\n")
    result = four.sync(project.name)
    assert (result.file_count, result.changed_count, result.hosts) == (2, 2, ("localhost",))
    code = f"import {project.name}.model as m\n(m.f(), m.__file__)"
    assert {eval(value)[0] for value in values(four.run(code))} == {"copied"}
    files = {Path(eval(value)[1]) for value in values(four.run(code))}
    assert files == {Path(four.log_dirs["localhost"], "code", project.name, "model.py")}


def test_of_a_folder_with_a_slash_what_is_in_it_can_be_imported(four, project):
    project.write("inside.py", "x = 7")
    four.sync(f"{project.name}/")
    assert values(four.run("import inside\ninside.x")) == ["7"] * 4
    assert not Path(four.log_dirs["localhost"], "code", project.name).exists()
    (project.path / "inside.py").unlink()
    assert four.sync(f"{project.name}/").removed_count == 1
    assert not Path(four.log_dirs["localhost"], "code", "inside.py").exists()


def test_nothing_is_sent_twice_and_what_was_removed_is_removed(four, project):
    project.write("a.py", "x = 1")
    project.write("inner/b.py", "y = 1")
    four.sync(project.path)
    again = four.sync(project.path)
    assert (again.changed_count, again.removed_count) == (0, 0)
    (project.path / "inner/b.py").unlink()
    (project.path / "inner").rmdir()
    project.write("a.py", "x = 2")
    result = four.sync(project.path)
    assert (result.changed_count, result.removed_count) == (1, 1)
    result = four.run(f"import {project.name}.inner.b")
    assert {rank.error.ename for rank in result} == {"ModuleNotFoundError"}


def test_modules_that_changed_are_named_and_loaded_anew_when_asked(four, project):
    name = project.name
    project.write("__init__.py", "from .model import f\n")
    project.write("model.py", "from .rates import RATE\ndef f():\n    return RATE\n")
    project.write("rates.py", "RATE = 0.5\n")
    project.write("untouched.py", "runs = []\n")
    four.sync(name)
    four.run(
        f"import {name}, {name}.untouched\nfrom {name} import f as g\n{name}.untouched.runs += [1]"
    )
    project.write("rates.py", "RATE = 0.7\n")
    result = four.sync(name)
    assert result.stale == {f"{name}.rates": ("localhost",)}
    assert_tells(result.hint(), f"{name}.rates ", "1 host")
    assert values(four.run("g()")) == ["0.5"] * 4
    result = four.sync(name, reload=True)
    assert result.reload.ok
    assert {rank.stdout for rank in result.reload} == {
        f"loaded again: {name}.rates, {name}.model, {name}\n"
    }
    assert values(four.run(f"(g(), {name}.f(), {name}.untouched.runs)")) == ["(0.7, 0.7, [1])"] * 4
    again = four.sync(name, reload=True)
    assert {rank.stdout for rank in again.reload} == {""}
    assert four.sync(name).stale == {}


def test_a_change_within_the_same_second_and_of_the_same_size_is_not_overlooked(four, project):
    name = project.name
    for k in range(4):
        project.write("model.py", f"def f():\n    return {k}\n")
        assert four.sync(name, reload=True).changed_count == (2 if k == 0 else 1)
        assert values(four.run(f"import {name}.model\n{name}.model.f()")) == [str(k)] * 4


def test_an_error_in_the_new_source_is_shown_and_the_module_keeps_what_it_had(four, project):
    name = project.name
    project.write("model.py", "def f():\n    return 1\n")
    four.sync(name)
    four.run(f"from {name}.model import f")
    project.write("model.py", "def f():\n    return 2\n\nraise ValueError('new source')\n")
    result = four.sync(name, reload=True)
    with pytest.raises(RankRaised, match="ValueError: new source") as caught:
        result.reload.raise_first()
    shown = "\n".join(caught.value.traceback)
    assert f"{name}/model.py" in shown
    assert "importlib" not in shown
    assert values(four.run(f"import {name}.model as m\n(f(), m.f())")) == ["(1, 1)"] * 4
    assert four.sync(name).stale == {f"{name}.model": ("localhost",)}
    project.write("model.py", "def f():\n    return 3\n")
    assert four.sync(name, reload=True).reload.ok
    assert values(four.run("(f(), m.f())")) == ["(3, 3)"] * 4


def test_an_import_that_failed_does_not_count_as_imported(four, project):
    project.write("broken.py", "1/0\n")
    four.sync(project.name)
    assert not four.run(f"import {project.name}.broken").ok
    project.write("broken.py", "x = 1\n")
    assert four.sync(project.name).stale == {}
    assert values(four.run(f"import {project.name}.broken as b\nb.x")) == ["1"] * 4


def test_a_module_that_was_imported_from_the_working_directory_is_taken_from_the_copy(
    start, project
):
    project.write("model.py", "x = 1")
    project.write("__init__.py", "from .model import x")
    with start("localhost:2") as cluster:
        here = f"'{project.path}/model.py'"
        code = f"import {project.name}.model as m\nm.__file__"
        assert values(cluster.run(code)) == [here] * 2
        project.write("model.py", "x = 2")
        assert cluster.sync(project.name, reload=True).reload.ok
        copies = values(cluster.run("(m.x, m.__file__)"))
        copy = Path(cluster.log_dirs["localhost"], "code", project.name, "model.py")
        assert copies == [f"(2,\n '{copy}')"] * 2


def test_ranks_may_be_busy_meanwhile(four, project, in_background, tmp_path):
    go = tmp_path / "go"
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)"
    running = in_background(four.run, wait)
    wait_until(lambda: "busy" in four.status().ranks.values(), 5, "ranks are busy")
    project.write("model.py", "x = 5")
    assert four.sync(project.name).changed_count == 2
    assert not running.done()
    assert not four.topology().note
    go.touch()
    assert running.result(5).ok
    assert values(four.run(f"from {project.name}.model import x\nx")) == ["5"] * 4


def test_a_rank_imports_what_comes_while_its_cell_runs(four, project, in_background):
    name = project.name
    four.sync(name)
    code = (
        f"import time, {name}\nwhile True:\n    try:\n        import {name}.late as late\n        break\n"
        "    except ModuleNotFoundError:\n        time.sleep(0.01)\nlate.x"
    )
    running = in_background(four.run, code)
    wait_until(lambda: "busy" in four.status().ranks.values(), 5, "ranks are busy")
    project.write("late.py", "x = 9")
    four.sync(name)
    assert values(running.result(10)) == ["9"] * 4


def test_much_code_arrives_whole_however_it_is_cut(four, project):
    rng = np.random.default_rng(1)
    (project.path / "large.bin").write_bytes(rng.bytes((40 << 20) + 12_345))
    (project.path / "same.bin").write_bytes((project.path / "large.bin").read_bytes())
    for k in range(300):
        project.write(f"many/m{k}.py", f"x = {k}\n" * (k % 7))
    four.sync(project.name)
    copy = Path(four.log_dirs["localhost"], "code", project.name)
    for file in project.path.rglob("*.*"):
        assert (copy / file.relative_to(project.path)).read_bytes() == file.read_bytes()
    assert sum(path.is_file() for path in copy.rglob("*")) == 303


def test_what_changes_while_it_is_copied_changes_nothing_there(four, project, monkeypatch):
    project.write("model.py", "x = 1")
    four.sync(project.name)
    project.write("model.py", "x = 2")
    compare = _Sync.compare

    def compare_then_edit(sync):
        compare(sync)
        project.write("model.py", "x = 33")

    monkeypatch.setattr(_Sync, "compare", compare_then_edit)
    with pytest.raises(SyncFailed, match=r"model\.py changed"):
        four.sync(project.name)
    run_dir = Path(four.log_dirs["localhost"])
    assert (run_dir / "code" / project.name / "model.py").read_text() == "x = 1"
    wait_until(lambda: not (run_dir / "code-incoming").exists(), 5, "the rest is forgotten")


def test_a_host_without_room_is_named_with_its_reason(four, project):
    run_dir = Path(four.log_dirs["localhost"])
    (run_dir / "code" / project.name).mkdir()
    (run_dir / "code" / project.name / "kept.py").touch()
    agent = agents_of(four)[0]
    project.write("large.bin", "x" * 10_000)
    before = agent.rlimit(1)  # RLIMIT_FSIZE: a file that is too large, as on a full disk
    agent.rlimit(1, (5_000, before[1]))
    try:
        with pytest.raises(SyncFailed) as caught:
            four.sync(project.name)
        assert list(caught.value.problems) == ["localhost"]
        assert os.strerror(errno.EFBIG) in caught.value.reason
    finally:
        agent.rlimit(1, before)
    assert (run_dir / "code" / project.name / "kept.py").exists()
    four.sync(project.name)
    assert not (run_dir / "code" / project.name / "kept.py").exists()


def test_how_much_has_arrived_is_told(four, project, monkeypatch):
    monkeypatch.setattr(moving, "TELL_AFTER_S", 0.0)
    monkeypatch.setattr(moving, "TELL_INTERVAL_S", 0.0)
    project.path.joinpath("data.bin").write_bytes(os.urandom(24 << 20))
    told = []
    four.sync(project.name, on_moved=told.append)
    moved = [each.moved_bytes for each in told]
    assert moved == sorted(moved)
    assert moved[0] < moved[-1] == 24 << 20
    assert {(each.where, each.total_bytes) for each in told} == {("to localhost", 24 << 20)}


def test_a_path_that_cannot_be_copied_disturbs_nobody(four, project):
    with pytest.raises(UsageError, match="nope: "):
        four.sync("nope")
    assert four.sync(project.name).file_count == 1


def test_without_any_agent_the_sync_says_so(start, project):
    cluster = start("localhost:1")
    (agent,) = agents_of(cluster)
    agent.terminate()
    wait_until(lambda: "lost" in cluster.status().ranks.values(), 5, "the rank is lost")
    with pytest.raises(SyncFailed) as caught:
        cluster.sync(project.name)
    assert (caught.value.host, "lost" in caught.value.reason) == ("localhost", True)


def test_the_terminal_can_sync_too(start, home, project):
    cluster = start("localhost:2", name="demo")
    project.write("model.py", "x = 1")
    status, out, err = dist("sync", project.name, "--reload")
    assert (status, err) == (0, "")
    assert out.startswith(f"copied {project.name} (2 files, 5 B) to 1 host in ")
    cluster.run(f"import {project.name}.model as m")
    project.write("model.py", "x = 1/0")
    status, out, err = dist("sync", project.name, "--reload")
    assert status == 1
    assert "rank 0: ZeroDivisionError: " in err
    assert "model.py" in out
