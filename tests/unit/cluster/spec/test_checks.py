from types import SimpleNamespace

import pytest

from jupyter_dist.cluster.spec import checks
from jupyter_dist.cluster.spec.checks import check_directory, check_system, free_name, read_ranks
from jupyter_dist.errors import StartFailed, UnknownRanks, UsageError
from jupyter_dist.launch.files.connection_file import connection_path
from jupyter_dist.model.spec.cluster_spec import ClusterSpec, HostSpec


@pytest.mark.parametrize(
    ("ranks", "read"),
    [
        (None, None),
        (0, (0,)),
        ("0,2-3", (0, 2, 3)),
        ([3, 1, 3], (1, 3)),
        (range(2), (0, 1)),
        ((rank for rank in (2, 0)), (0, 2)),
    ],
)
def test_ranks_are_read_in_every_form(ranks, read):
    assert read_ranks(ranks, 4) == read


@pytest.mark.parametrize("ranks", [4, -1, [], [0, 4], "4", ""])
def test_ranks_that_are_not_there_are_refused(ranks):
    with pytest.raises(UnknownRanks, match="ranks 0-3"):
        read_ranks(ranks, 4)


def test_a_name_that_is_free_is_found(monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))

    running = [SimpleNamespace(name=name) for name in ("cluster-1", "cluster-3", "mine")]
    monkeypatch.setattr(checks, "running_clusters", lambda: running)
    assert free_name() == "cluster-2"
    connection_path("cluster-2").touch()
    assert free_name() == "cluster-4", "a file that cannot be read holds its name"


def test_a_directory_is_given_with_its_whole_path(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    assert check_directory("work") == str((tmp_path / "work").resolve())
    assert check_directory(None) == str(tmp_path.resolve())


def test_a_directory_that_is_missing_or_a_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for name in ("missing", "file"):
        with pytest.raises(UsageError, match=name):
            check_directory(tmp_path / name)


FAR = HostSpec("far", launcher="ssh")


@pytest.mark.parametrize(
    ("hosts", "more", "named"),
    [
        ((FAR, HostSpec("near", launcher="local")), {}, "near .* WSL"),
        ((FAR,), {"install": True}, "--install .* pip install"),
    ],
)
def test_what_windows_cannot_start_is_told_with_the_next_step(hosts, more, named):
    spec = ClusterSpec(name="mine", hosts=hosts, **more)
    check_system(spec, "linux")
    with pytest.raises(StartFailed, match=named):
        check_system(spec, "win32")
    check_system(ClusterSpec(name="mine", hosts=(FAR,)), "win32")
