"""A real IPython shell, and a cluster and views that only remember what they were told."""

from types import SimpleNamespace
from typing import ClassVar

import pytest
from fakes.cluster import fake_cluster, replace_modules
from IPython.core.completer import provisionalcompleter

from jupyter_dist.views.stages.start_progress import ready_text
from tests.ipython_shell import shell_with_magics


class FakeView:
    """Remembers how it was finished."""

    def __init__(self, asked):
        self.asked = asked
        self.finished = []

    def finish(self, *given):
        self.finished.append(given)

    def on_note(self, text):
        self.finished.append(("note", text))

    def on_tick(self):
        self.finished.append(("tick",))


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
    hosts = [SimpleNamespace(name=name.partition(":")[0]) for name in names]
    size = sum(int(name.partition(":")[2] or 0) for name in names)
    return SimpleNamespace(hosts=hosts, wishes=wishes, world_size=size)


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
        return f"found: {spec.hosts[0].name}"

    kind = fake_cluster()
    fakes = {
        "cluster.doctor.examination": {"examine": examine},
        "cluster.spec.specification": {"specify": specify},
        "cluster.cluster": {"Cluster": kind},
        "views.cell.cell_output": {"choose_view": lambda _shell, **asked: make(FakeView, asked)},
        "views.tables.findings_view": {
            "FindingsView": lambda hosts, display: make(
                FakeProgress, {"hosts": hosts, "display": display}
            )
        },
        "views.stages.start_progress": {
            "StartProgressView": lambda display: make(FakeProgress, {"display": display}),
            "ready_text": ready_text,
        },
        "views.stages.transfer_bar": {"TransferBar": lambda display: make(FakeBar, display)},
        "views.topology.widget": {"show_topology": lambda cluster, **_how: shown.append(cluster)},
        "views.topology.snapshot": {"topology_text": lambda topology: f"drawn: {topology}"},
    }
    replace_modules(monkeypatch, fakes)
    return SimpleNamespace(views=views, shown=shown, kind=kind, clusters=kind.started)


@pytest.fixture
def shell(world, tmp_path):
    """An IPython shell of its own with our extension loaded."""
    with shell_with_magics(tmp_path) as shell:
        yield shell


@pytest.fixture
def run(shell, capsys):
    """Run a cell; gives its ExecutionResult with everything written as `.text`."""

    def run_cell(code):
        capsys.readouterr()
        result = shell.run_cell(code, store_history=True)
        result.text = "".join(capsys.readouterr())
        return result

    return run_cell


@pytest.fixture
def cluster(run, world):
    """The notebook's cluster, of two ranks."""
    run("%dist_start -n 2")
    return world.clusters["demo"]


@pytest.fixture
def displayed(shell, monkeypatch):
    """Make the shell that of a notebook; gives what is displayed there, each with how."""
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda what, **how: shown.append((what, how)))
    object.__setattr__(shell, "kernel", object())
    return shown


@pytest.fixture
def complete(shell):
    """Complete a cell at its end; gives what is offered."""

    def completions(code):
        with provisionalcompleter():
            return {found.text for found in shell.Completer.completions(code, len(code))}

    return completions
