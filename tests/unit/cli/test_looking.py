import sys
from types import ModuleType

import pytest
from fakes.named import names, number

from jupyter_dist.cli.__main__ import main
from jupyter_dist.cluster.questions import Stacks
from jupyter_dist.errors import NoCluster, UnknownRanks
from jupyter_dist.model.names_table import tabulate_names
from jupyter_dist.model.stacks import RankStacks

TABLE = tabulate_names({0: names(number("a", 1), rss_mib=0)}, {1: "it is lost"})


class FakeCluster:
    """Remembers what it was asked; one cluster runs, and it is called demo."""

    asked: list
    said = "no cell runs, and nothing is odd"
    name = "demo"

    @classmethod
    def visit(cls, name=None):
        if name not in (None, "demo"):
            raise NoCluster(name, ["demo"])
        return cls()

    def who(self, patterns, ranks):
        self.asked.append((tuple(patterns), ranks))
        if ranks == "9":
            raise UnknownRanks("9", 4)
        return TABLE

    def stacks(self, ranks, *, native):
        self.asked.append((ranks, native))
        return Stacks({0: RankStacks("none", note="it is lost")})

    def explain(self):
        return self.said


@pytest.fixture
def asked(monkeypatch):
    cluster = ModuleType("jupyter_dist.cluster.cluster")
    cluster.Cluster = type("Cluster", (FakeCluster,), {"asked": []})
    monkeypatch.setitem(sys.modules, cluster.__name__, cluster)
    return cluster.Cluster.asked


@pytest.fixture
def dist(asked, capsys):
    """Run `jupyter dist …`; gives (exit status, stdout, stderr)."""

    def run(*argv):
        status = main(argv)
        return status, *capsys.readouterr()

    return run


def test_variables_are_written_as_a_table(dist, asked):
    status, out, err = dist("who")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "name  type  memory  value",
        "a     int   28 B    1",
        "no answer from rank 1: it is lost",
    ]
    assert dist("who", "demo", "--only", "w*", "loss", "--ranks", "0-1")[0] == 0
    assert asked == [((), None), (("w*", "loss"), "0-1")]


def test_stacks_are_written(dist, asked):
    assert dist("stacks", "demo") == (0, "rank 0 (it is lost)\n", "")
    assert dist("stacks", "--native", "--ranks", "2")[0] == 0
    assert asked == [(None, False), ("2", True)]


def test_what_is_the_matter_is_written(dist):
    assert dist("explain") == (0, "no cell runs, and nothing is odd\n", "")


def test_a_command_line_names_what_interrupts_there_instead_of_a_button(dist, monkeypatch):
    monkeypatch.setattr(FakeCluster, "said", "In[3]: rank 0 waits; ■ releases them")
    assert (
        dist("explain")[1] == "In[3]: rank 0 waits; `jupyter dist interrupt demo` releases them\n"
    )


@pytest.mark.parametrize(
    ("argv", "given"),
    [
        (["who", "nope"], "'nope'"),
        (["who", "--ranks", "9"], "'9'"),
        (["stacks", "nope"], "'nope'"),
        (["stacks", "--nativ"], "--nativ"),
        (["explain", "a", "b"], "b"),
    ],
)
def test_a_command_that_cannot_be_meant_is_one_line_and_status_two(dist, argv, given):
    status, out, err = dist(*argv)
    assert (status, out) == (2, "")
    assert given in err
    assert err.count("\n") == 1
