import contextlib
import io
import sys
import types
from types import ModuleType

import pytest

from jupyter_dist.cli.__main__ import main
from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.cluster.sync import RELOAD_CELL, SyncResult
from jupyter_dist.errors import NoCluster, StartFailed
from jupyter_dist.model.spec import HostSpec
from jupyter_dist.model.spec_file import read_spec
from jupyter_dist.protocol.messages import ErrorInfo
from jupyter_dist.views.start_progress import ready_text


class FakeCluster:
    """Remembers; the class attributes are those of one test."""

    def __init__(self, hosts="localhost:4", *, name="demo", on_progress=None, **options):
        self.name, self.hosts, self.options = name, hosts, options
        self.world_size = 4
        self.notes = ()

    @classmethod
    def start(cls, hosts="localhost:4", **options):
        if cls.problem is not None:
            raise cls.problem
        cls.made = cls(hosts, **options)
        cls.names.append(cls.made.name)
        return cls.made

    @classmethod
    def visit(cls, name=None):
        if (name or "demo") not in cls.names:
            raise NoCluster(name, cls.names)
        return cls(name=name or "demo")

    @classmethod
    def running(cls):
        return list(cls.names)

    def run(self, code, ranks=None, timeout_s=None, **more):
        self.ran.append((code, ranks, timeout_s))
        if self.problem is not None:
            raise self.problem
        compile(code, "sent", "exec")
        error = ErrorInfo("ValueError", "no") if "raise" in code else None
        return SpmdResult([RankResult(rank=0, status="raised" if error else "ok", error=error)])

    def sync(self, paths, *, force=False, on_moved):
        self.made.on_moved = on_moved
        self.ran.append((tuple(paths), force))
        return SyncResult(
            paths=tuple(paths),
            hosts=("a", "b"),
            file_count=2,
            size_bytes=34,
            changed_count=1,
            removed_count=0,
            duration_s=0.1,
            stale={"mypkg.model": ("a", "b")},
        )

    def status(self):
        return f"table of {self.name}"

    def stop(self):
        self.names.remove(self.name)


class FakeBar(contextlib.nullcontext):
    def __init__(self, *, display):
        super().__init__(self)
        self.display = display

    def on_moved(self, moved):
        pass


class FakeView:
    passed_s = types.MappingProxyType({})

    def __init__(self, **asked):
        pass

    def on_progress(self, progress):
        pass

    def finish(self, result):
        pass

    def fail(self, text):
        pass


@pytest.fixture
def clusters(monkeypatch):
    cls = type("Cluster", (FakeCluster,), {"names": [], "ran": [], "problem": None})
    fakes = {
        "cluster.cluster": {"Cluster": cls},
        "views.cell_output": {"CellOutputView": FakeView},
        "views.transfer_bar": {"TransferBar": FakeBar},
        "views.start_progress": {
            "StartProgressView": FakeView,
            "ready_text": ready_text,
        },
    }
    for name, members in fakes.items():
        module = ModuleType(f"jupyter_dist.{name}")
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return cls


@pytest.fixture
def dist(clusters, capsys):
    """Run `jupyter dist …`; gives (exit status, stdout, stderr)."""

    def run(*argv):
        status = main(argv)
        return status, *capsys.readouterr()

    return run


def test_start_says_how_to_attach(dist, clusters):
    status, out, _ = dist("start", "-n", "2", "--name", "a", "--env", "K=V", "--keep", "2h")
    assert status == 0
    assert out.startswith("a\n")
    assert "%dist_attach a" in out
    assert clusters.made.hosts == "localhost:2"
    assert clusters.made.options == {"env": {"K": "V"}, "keep_s": 7200.0}


def test_start_hands_over_where_and_how(dist, clusters, tmp_path):
    line = "start --hosts far:8 --spec x.toml --python /env --interface ib0 --tunnel --install"
    assert dist(*line.split(), "--ssh", "ssh -F x", "--wheelhouse", "wheels")[0] == 0
    assert clusters.made.hosts == "far:8"
    assert clusters.made.options == {
        "spec": "x.toml",
        "python": "/env",
        "interface": "ib0",
        "tunnel": True,
        "install": True,
        "ssh": "ssh -F x",
        "wheelhouse": "wheels",
    }


def test_spec_writes_what_a_start_would_use_and_starts_nothing(dist, clusters, tmp_path):
    (tmp_path / "hosts").write_text("localhost slots=2\n")
    (tmp_path / "more.toml").write_text('keep = "2h"\n')
    line = ["spec", "--hostfile", str(tmp_path / "hosts"), "--spec", str(tmp_path / "more.toml")]
    status, out, err = dist(*line, "--name", "demo", "--cwd", str(tmp_path))
    assert (status, err) == (0, "")
    spec = read_spec(out, "out.toml")
    assert spec.hosts == (HostSpec("localhost", 2, launcher="local"),)
    assert (spec.name, spec.keep_s, spec.cwd) == ("demo", 7200.0, str(tmp_path))
    assert clusters.names == []


def test_list_names_what_runs(dist, clusters):
    clusters.names[:] = ["a", "b"]
    assert dist("list") == (0, "a\nb\n", "")


def test_status_writes_the_table(dist, clusters):
    clusters.names[:] = ["a"]
    assert dist("status", "a") == (0, "table of a\n", "")


def test_run_sends_the_file(dist, clusters, tmp_path):
    clusters.names[:] = ["demo"]
    file = tmp_path / "train.py"
    file.write_text("x = 1\n")
    assert dist("run", str(file), "--ranks", "0-1", "--timeout", "5m")[0] == 0
    assert clusters.ran == [("x = 1\n", (0, 1), 300.0)]


def test_run_reads_standard_input(dist, clusters, monkeypatch):
    clusters.names[:] = ["demo"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("y = 2\n"))
    assert dist("run", "-")[0] == 0
    assert clusters.ran[0][0] == "y = 2\n"


def test_a_rank_that_raises_makes_status_one(dist, clusters, monkeypatch):
    clusters.names[:] = ["demo"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("raise ValueError('no')\n"))
    assert dist("run", "-") == (1, "", "jupyter dist: rank 0: ValueError: no\n")


def test_a_syntax_error_names_file_and_line(dist, clusters, tmp_path):
    clusters.names[:] = ["demo"]
    file = tmp_path / "bad.py"
    file.write_text("x = 1\nfor\n")
    status, _, err = dist("run", str(file))
    assert status == 1
    assert err == f"jupyter dist: {file}, line 2: SyntaxError: invalid syntax\n"


def test_stop_ends_one_or_all(dist, clusters):
    clusters.names[:] = ["a", "b", "c"]
    assert dist("stop", "b") == (0, "stopped b\n", "")
    assert dist("stop", "--all") == (0, "stopped a\nstopped c\n", "")
    assert clusters.names == []


@pytest.mark.parametrize(
    ("argv", "given"),
    [
        ([], "command"),
        (["frob"], "'frob'"),
        (["start", "-n", "0"], "start: argument -n: '0'"),
        (["start", "--frob"], "start: unrecognized arguments: --frob"),
        (["start", "-n", "2", "--hosts", "a"], "--hosts: not allowed with argument -n"),
        (["start", "--hostfile", "x", "--hosts", "a"], "--hosts: not allowed with argument"),
        (["spec", "--hosts", "a:0"], "'0' is not a number of slots"),
        (["spec", "--spec", "/no/such/file"], "spec file '/no/such/file' cannot be read"),
        (["stop", "a", "--all"], "--all"),
        (["stop", "nope"], "'nope'"),
        (["run", "/no/such/file"], "/no/such/file cannot be read: No such file"),
        (["run"], "FILE"),
    ],
)
def test_a_command_that_cannot_be_meant_is_one_line_and_status_two(dist, argv, given):
    status, out, err = dist(*argv)
    assert (status, out) == (2, "")
    assert err.startswith("jupyter dist: ")
    assert given in err
    assert err.count("\n") == 1


def test_a_start_that_fails_is_status_one(dist, clusters):
    clusters.problem = StartFailed("rank 1 did not\ncome")
    assert dist("start") == (1, "", "jupyter dist: rank 1 did not\ncome\n")


def test_an_interrupt_is_told(dist, clusters):
    clusters.problem = KeyboardInterrupt()
    assert dist("start") == (130, "", "jupyter dist: interrupted\n")
    clusters.problem = KeyboardInterrupt("the ranks may still be busy")
    assert dist("start") == (130, "", "jupyter dist: the ranks may still be busy\n")


def test_help_is_written_and_ends_well(clusters, capsys):
    with pytest.raises(SystemExit) as end:
        main(["start", "--help"])
    assert end.value.code == 0
    assert "--comm {auto,ring,gloo,nccl,none}" in capsys.readouterr().out


def test_what_a_host_has_said_last_stays_on_lines_of_its_own(clusters, capsys):
    clusters.problem = StartFailed("nodeA: refused.\n--- nodeA said last ---\nssh: no")
    assert main(["start", "--hosts", "nodeA:1"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told == ["jupyter dist: nodeA: refused.", "--- nodeA said last ---", "ssh: no"]


def test_sync_copies_to_the_cluster_that_is_named_and_says_what_to_do_next(dist, clusters):
    dist("start", "--name", "a")
    status, out, err = dist("sync", "mypkg", "src/", "--name", "a", "--force")
    assert (status, err) == (0, "")
    assert clusters.ran == [(("mypkg", "src/"), True)]
    copied, hint = out.splitlines()
    assert copied == "copied mypkg, src/ (2 files, 34 B) to 2 hosts in 0.1 s (1 file changed)"
    assert hint.endswith("imported already: jupyter dist sync mypkg src/ --reload")


def test_sync_with_reload_runs_the_cell_for_it(dist, clusters):
    dist("start")
    status, out, _ = dist("sync", "mypkg", "--reload")
    assert status == 0
    assert clusters.ran == [(("mypkg",), False), (RELOAD_CELL, None, None)]
    assert "imported already" not in out
