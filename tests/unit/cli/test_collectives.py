import sys
from types import ModuleType

import pytest
from fakes.recorded import call, host, rank

from jupyter_dist.cli.__main__ import main
from jupyter_dist.cluster.collectives import CollectiveLog
from jupyter_dist.errors import NoCluster, UsageError

LOG = CollectiveLog((host("a", rank(0, call("barrier", 1, 5, 6))),), {}, 1)


class FakeCluster:
    """Remembers what it was asked; one cluster runs, and it is called demo."""

    asked: list

    @classmethod
    def visit(cls, name=None):
        if name not in (None, "demo"):
            raise NoCluster(name, ["demo"])
        return cls()

    def collectives(self, last):
        self.asked.append(last)
        return LOG

    def timeline(self, path, *, force):
        self.asked.append((path, force))
        if path == "/":
            raise UsageError("'/' is a folder. Name a file in it, as trace.json.")
        return f"wrote it to {path}"


@pytest.fixture
def asked(monkeypatch):
    module = ModuleType("jupyter_dist.cluster.cluster")
    module.Cluster = type("Cluster", (FakeCluster,), {"asked": []})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.Cluster.asked


@pytest.fixture
def dist(asked, capsys):
    """Run `jupyter dist …`; gives (exit status, stdout, stderr)."""

    def run(*argv):
        status = main(argv)
        return status, *capsys.readouterr()

    return run


def test_collectives_are_written_as_a_table(dist, asked):
    status, out, err = dist("collectives")
    assert (status, err) == (0, "")
    assert out.splitlines()[1].split() == ["1", "barrier()", "In[1]:7", "✓", "1.0", "ms"]
    assert dist("collectives", "demo", "--last", "3")[0] == 0
    assert asked == [20, 3]


def test_a_timeline_is_written_to_the_file_that_is_named(dist, asked):
    assert dist("timeline", "trace.json") == (0, "wrote it to trace.json\n", "")
    assert dist("timeline", "trace.json", "demo", "--force")[0] == 0
    assert asked == [("trace.json", False), ("trace.json", True)]


@pytest.mark.parametrize(
    ("argv", "given"),
    [
        (["collectives", "--last", "0"], "'0' is not a number of calls"),
        (["collectives", "nope"], "'nope'"),
        (["timeline"], "FILE"),
        (["timeline", "/"], "'/' is a folder"),
        (["timeline", "x.json", "nope"], "'nope'"),
    ],
)
def test_a_command_that_cannot_be_meant_is_one_line_and_status_two(dist, argv, given):
    status, out, err = dist(*argv)
    assert (status, out) == (2, "")
    assert given in err
    assert err.count("\n") == 1
