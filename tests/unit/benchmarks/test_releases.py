import subprocess
import sys
from pathlib import Path

import pytest

NUMBERS = iter(range(1000))


@pytest.fixture
def releases(benchmark_module, monkeypatch, tmp_path):
    module = benchmark_module("releases")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "a")
        monkeypatch.setenv(f"{name}_EMAIL", "a@example.org")
    git(tmp_path, "init", "--quiet")
    return module


@pytest.fixture
def commit(releases, tmp_path):
    """Commit a change of this file; return the short hash."""

    def change(name):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{next(NUMBERS)}")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "--quiet", "--message", name)
        return git(tmp_path, "rev-parse", "--short", "HEAD")

    return change


def git(folder, *words):
    command = ["git", "-C", folder, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_measured_commit_is_the_last_that_changed_the_package(releases, commit, tmp_path):
    changed = commit("jupyter_dist/a.py")
    commit("benchmarks/a.py")
    assert releases.package_commit() == changed
    (tmp_path / "jupyter_dist" / "a.py").write_text("more")
    assert releases.package_commit() == changed + releases.CHANGED


def test_named_releases_run_in_the_order_of_their_commits(releases, commit, tmp_path):
    first, second = commit("jupyter_dist/a.py"), commit("jupyter_dist/a.py")
    git(tmp_path, "tag", "v1", first)
    assert releases.find_releases(f"{second},v1,{second}", []) == (first, second)
    assert releases.find_releases("none", []) == ()


def test_a_worker_runs_the_release_of_its_own_environment(benchmark_module, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    assert "PYTHONPATH" not in benchmark_module("arena")._environment(tmp_path)


def test_a_release_that_is_not_there_is_named(releases, commit):
    commit("jupyter_dist/a.py")
    with pytest.raises(releases.UnknownRelease, match=r"^v9 .*git fetch"):
        releases.find_releases("v9", [])


@pytest.mark.parametrize(
    "words", ["scale.py --real 8 --before v9,v8", "against_peers.py --releases v9,v8"]
)
def test_programs_tell_which_release_is_not_there(words):
    program, *options = words.split()
    command = [sys.executable, Path("benchmarks", program).resolve(), *options]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 2
    assert "v9" in told.stderr.splitlines()[-1]


def test_the_newest_tag_before_this_commit_runs_along(releases, commit, tmp_path):
    commits = [commit("jupyter_dist/a.py") for _ in range(3)]
    for number, each in enumerate(commits):
        git(tmp_path, "tag", f"v{number}", each)
    ledger = [{"commit": commits[0]}]
    assert releases.find_releases(None, ledger) == (commits[1],)


def test_without_a_tag_it_is_what_the_ledger_has_last_besides_this_commit(releases, commit):
    first, second, today = [commit("jupyter_dist/a.py") for _ in range(3)]
    assert releases.find_releases(None, []) == ()
    ledger = [{"commit": each} for each in (first, second + releases.CHANGED, today)]
    assert releases.find_releases(None, ledger) == (second,)
