"""The command line, and clusters that only remember what they were asked."""

import pytest
from fakes.cluster import fake_cluster, replace_modules

from jupyter_dist.cli.__main__ import main


@pytest.fixture
def kind(monkeypatch):
    """The class of clusters; `kind.started` are those that run, by name."""
    kind = fake_cluster()
    replace_modules(monkeypatch, {"cluster.cluster": {"Cluster": kind}})
    return kind


@pytest.fixture
def demo(kind):
    """One that runs."""
    return kind.start()


@pytest.fixture
def dist(kind, capsys):
    """Run `jupyter dist …`; gives (exit status, stdout, stderr)."""

    def run(*argv):
        status = main(argv)
        return status, *capsys.readouterr()

    return run
