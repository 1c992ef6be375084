"""A real IPython shell, and a cluster and views that only remember what they were told."""

import atexit
import sys
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.cluster.spmd import check_syntax
from jupyter_dist.cluster.sync import SyncResult
from jupyter_dist.errors import ClusterExists, NoCluster, StartFailed, SyncFailed
from jupyter_dist.protocol.messages import ErrorInfo
from jupyter_dist.views.start_progress import ready_text

FAILED = ErrorInfo("ZeroDivisionError", "division by zero", ("Cell In[1], line 2", "1/0"))


class FakeCluster:
    """Records calls; `started` holds every cluster of one test."""

    started: ClassVar[dict[str, "FakeCluster"]] = {}

    def __init__(self, hosts="localhost:4", *, name="demo", on_progress=None, **options):
        self.name = name
        self.world_size = int(hosts.rpartition(":")[2])
        self.hosts = hosts
        self.options = options
        self.calls = []
        self.statuses = ["ok"] * self.world_size
        self.problem = None
        self.log_dirs = {"localhost": "/logs"}
        self.notes = ()
        self.driver = ""
        self.kept = ()

    @property
    def is_running(self):
        return self.name in self.started

    @classmethod
    def start(cls, hosts="localhost:4", **options):
        name = options.get("name") or "demo"
        if name in cls.started:
            raise ClusterExists(name)
        if options.get("cwd") == "/broken":
            raise StartFailed("rank 1 did not come")
        cls.started[name] = cls(hosts, **options)
        return cls.started[name]

    @classmethod
    def attach(cls, name=None, *, watch=False, take_over=False):
        if name not in cls.started and not (name is None and len(cls.started) == 1):
            raise NoCluster(name, list(cls.started))
        found = cls.started[name or next(iter(cls.started))]
        found.calls.append(("attach", watch, take_over))
        return found

    def outputs(self):
        return self.kept

    @classmethod
    def running(cls):
        return list(cls.started)

    def run(self, code, ranks=None, timeout_s=None, **more):
        self.calls.append(SimpleNamespace(code=code, ranks=ranks, timeout_s=timeout_s, **more))
        check_syntax(code, more["label"])
        if self.problem is not None:
            raise self.problem
        return SpmdResult(
            [
                RankResult(rank=rank, status=status, error=FAILED if status == "raised" else None)
                for rank, status in enumerate(self.statuses)
            ]
        )

    def push(self, objects, ranks=None, *, timeout_s, on_stage, on_moved):
        self.on_stage, self.on_moved, self.timeout_s = on_stage, on_moved, timeout_s
        self.calls.append((objects, ranks))

    def pull(self, name, ranks=None, *, timeout_s, on_stage, on_moved):
        self.on_moved, self.timeout_s = on_moved, timeout_s
        on_stage("waits: rank 1 is still busy")
        return {rank: f"{name}{rank}" for rank in range(self.world_size)}

    def sync(self, paths, *, force=False, on_moved):
        self.on_moved = on_moved
        self.calls.append(("sync", tuple(paths), force))
        if "nope" in paths:
            raise SyncFailed({"b": "its agent is gone"}, "Nothing was changed on any host.")
        return SyncResult(
            paths=tuple(paths),
            hosts=("a", "b"),
            file_count=2,
            size_bytes=34,
            changed_count=1,
            removed_count=0,
            duration_s=0.1,
            stale={"mypkg.model": ("a", "b")},
            notes=("c is lost: it has no new code",),
        )

    def interrupt(self, ranks=None):
        self.calls.append(ranks)
        return (0, 1)

    def status(self):
        return f"table of {self.name}"

    def topology(self):
        return f"topology of {self.name}"

    def stop(self):
        if self.problem is not None:
            raise self.problem
        del self.started[self.name]

    def detach(self):
        self.calls.append("detach")


class FakeView:
    """Remembers how it was finished."""

    def __init__(self, asked):
        self.asked = asked
        self.finished = []

    def finish(self, *given):
        self.finished.append(given)


class FakeProgress(FakeView):
    passed_s: ClassVar[dict[str, float]] = {"hosts": 0.4, "engines": 0.3}

    def on_progress(self, progress):
        pass

    def fail(self, text):
        self.finished.append((f"failed: {text}",))


class FakeBar(FakeView):
    def on_moved(self, moved):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.finish()


def specify(hosts=None, **wishes):
    """Remember what was asked for in what is given back."""
    names = (hosts or "localhost").split(",")
    return SimpleNamespace(hosts=[SimpleNamespace(name=name) for name in names], wishes=wishes)


@pytest.fixture
def world(monkeypatch):
    """Put the fakes where the magics look for the real ones; `world.views` are those made."""
    views, shown = [], []

    def make(kind, asked):
        views.append(kind(asked))
        return views[-1]

    def examine(spec):
        if spec.hosts[0].name == "trouble":
            raise KeyboardInterrupt
        return f"what was found on {spec.hosts[0].name}"

    fakes = {
        "cluster.doctor": {"examine": examine},
        "cluster.specification": {"specify": specify},
        "cluster.cluster": {"Cluster": type("Cluster", (FakeCluster,), {"started": {}})},
        "views.cell_output": {"choose_view": lambda _shell, **asked: make(FakeView, asked)},
        "views.findings_view": {
            "FindingsView": lambda hosts, display: make(
                FakeProgress, {"hosts": hosts, "display": display}
            ),
        },
        "views.start_progress": {
            "StartProgressView": lambda display: make(FakeProgress, {"display": display}),
            "ready_text": ready_text,
        },
        "views.transfer_bar": {"TransferBar": lambda display: make(FakeBar, display)},
        "views.topology_widget": {"show_topology": shown.append},
        "views.topology_snapshot": {"topology_text": lambda topology: f"text of {topology}"},
    }
    for name, members in fakes.items():
        module = ModuleType(f"jupyter_dist.{name}")
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return SimpleNamespace(
        views=views, shown=shown, clusters=fakes["cluster.cluster"]["Cluster"].started
    )


@pytest.fixture
def shell(world, tmp_path, monkeypatch):
    """An IPython shell of its own with our extension loaded."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "jupyter_dist")
    yield shell
    shell.restore_sys_module_state()
    InteractiveShell.clear_instance()
    # What a shell does at the exit takes a third of a second, and there is one for each test.
    atexit.unregister(shell.atexit_operations)


@pytest.fixture
def run(shell, capsys):
    """Run a cell; gives its ExecutionResult with everything written as `.text`."""

    def run_cell(code):
        capsys.readouterr()
        result = shell.run_cell(code, store_history=True)
        result.text = "".join(capsys.readouterr())
        return result

    return run_cell
