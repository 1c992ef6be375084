"""A cluster that only remembers what it was asked, for what a person types."""

import sys
from types import ModuleType, SimpleNamespace
from typing import ClassVar

from fakes.named import names, number
from fakes.profiled import idle_profile
from fakes.recorded import call, host, rank

from jupyter_dist.cluster.axes.selection import select_ranks
from jupyter_dist.cluster.code.sync import SyncResult
from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog
from jupyter_dist.cluster.grants.giving import GivenGrant
from jupyter_dist.cluster.healing import Healed, Shrunken
from jupyter_dist.cluster.result import RankResult, SpmdResult
from jupyter_dist.cluster.spmd import check_syntax
from jupyter_dist.cluster.variables.names_table import tabulate_names
from jupyter_dist.cluster.variables.rank_queries import Stacks
from jupyter_dist.errors import (
    ClusterExists,
    HealFailed,
    NoCluster,
    StartFailed,
    SyncFailed,
    UsageError,
)
from jupyter_dist.model.hosts.axes import Axes, lay_out, read_sizes
from jupyter_dist.model.ranks.stacks import Frame, RankStacks, ThreadStack
from jupyter_dist.protocol.messages import ErrorInfo, Grant

FAILED = ErrorInfo("ZeroDivisionError", "division by zero", ("Cell In[1], line 2", "1/0"))
TABLE = tabulate_names({0: names(number("a", 1)), 1: names(number("a", 2))}, {})
MAIN = ThreadStack("MainThread", True, (Frame("<module>", "In[1]:2"),))
STACKS = Stacks({0: RankStacks(threads=(MAIN,)), 1: RankStacks("none", note="it is lost")})
HANG = CollectiveLog(
    (host("a", rank(0, call("barrier", 1, 48_000)), rank(1, cells=())),),
    {"b": "its agent is gone"},
    3,
)
HEALED = Healed(5, {2: "nodeB"}, ("In[1]",), ("setup cell In[1] on rank 2: boom",), {"x": (2,)})


def ended(*statuses):
    """What came of a cell whose ranks ended so."""
    return SpmdResult(
        [
            RankResult(rank=rank, status=status, error=FAILED if status == "raised" else None)
            for rank, status in enumerate(statuses)
        ]
    )


class FakeStatus(SimpleNamespace):
    """What a cluster tells of itself."""

    def __init__(self, name):
        super().__init__(name=name, topology={"cluster": name, "state": "ready"})

    def __str__(self):
        return f"table of {self.name}"


class FakeCluster:
    """Records calls; `started` holds every cluster of one test, a class made by `fake_cluster`."""

    started: ClassVar[dict[str, "FakeCluster"]]

    def __init__(self, hosts="localhost:4", *, name="demo", on_progress=None, **options):
        self.name = name
        self.world_size = int(hosts.rpartition(":")[2])
        self.hosts = hosts
        self.options = options
        self.calls = []
        self.statuses = ["ok"] * self.world_size
        self.problem = None
        """Raised by what is asked next."""
        self.busy = (0, 1)
        self.log_dirs = {"localhost": "/logs"}
        self.notes = ()
        self.owner = ""
        self.kept = ()
        self.is_auto = False
        self.axes = Axes()

    @property
    def is_running(self):
        return self.name in self.started

    @classmethod
    def start(cls, hosts="localhost:4", **options):
        name = options.get("name") or "demo"
        if name in cls.started:
            raise ClusterExists(name)
        if options.get("cwd") == "/broken":
            raise StartFailed("rank 1 did not\ncome")
        if options.get("cwd") == "/long":
            raise KeyboardInterrupt("it is not waited for")
        cls.started[name] = cls(hosts, **options)
        return cls.started[name]

    @classmethod
    def visit(cls, name=None):
        if name not in cls.started and not (name is None and len(cls.started) == 1):
            raise NoCluster(name, list(cls.started))
        return cls.started[name or next(iter(cls.started))]

    @classmethod
    def attach(cls, name=None, *, watch=False, take_over=False):
        found = cls.visit(name)
        found._remember("attach", watch, take_over)
        return found

    @classmethod
    def running(cls):
        return list(cls.started)

    def _remember(self, *asked):
        self.calls.append(asked)
        if self.problem is not None:
            raise self.problem

    def outputs(self):
        return self.kept

    def select(self, ranks=None, on=None):
        halves = {"nodeA": tuple(range(self.world_size // 2))}
        halves["nodeB"] = tuple(range(self.world_size // 2, self.world_size))
        return select_ranks(ranks, on, halves, self.axes)

    def name_axes(self, sizes):
        self.axes = lay_out(read_sizes(sizes), self.world_size) if sizes else Axes()
        return self.axes

    def name_axes_of(self, mesh):
        self._remember("axes of", mesh)
        return self.axes

    def run(self, code, ranks=None, timeout_s=None, **more):
        self.calls.append(SimpleNamespace(code=code, ranks=ranks, timeout_s=timeout_s, **more))
        check_syntax(code, more.get("label", 1))
        return self._end()

    def run_in_background(self, code, ranks=None, timeout_s=None, **more):
        return ("begun", self.run(code, ranks, timeout_s, is_background=True, **more))

    def run_command(self, command, ranks=None, **more):
        self.calls.append(SimpleNamespace(code=command, ranks=ranks, **more))
        return self._end()

    def _end(self):
        if self.problem is not None:
            raise self.problem
        return ended(*self.statuses)

    def push(self, objects, ranks=None, *, on=None, timeout_s, on_stage, on_moved):
        self.on_stage, self.on_moved, self.timeout_s = on_stage, on_moved, timeout_s
        self._remember(objects, ranks)

    def pull(self, name, ranks=None, *, on=None, timeout_s, on_stage, on_moved):
        self.on_moved, self.timeout_s = on_moved, timeout_s
        on_stage("waits: rank 1 is still busy")
        return {rank: f"{name}{rank}" for rank in range(self.world_size)}

    def sync(self, paths, *, force=False, on_moved):
        self.on_moved = on_moved
        self._remember("sync", tuple(paths), force)
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

    def who(self, patterns, ranks):
        self._remember("who", tuple(patterns), ranks)
        return TABLE

    def stacks(self, ranks, *, native):
        self._remember("stacks", ranks, native)
        return STACKS

    def explain(self):
        return f"no cell runs on {self.name}; ■ ends nothing"

    def collectives(self, last):
        self._remember("collectives", last)
        return HANG

    def timeline(self, path, *, force):
        self._remember("timeline", path, force)
        if path == "mine.json":
            raise UsageError("mine.json is there already and is not a timeline of jupyter-dist.")
        return f"wrote it to {path}"

    def profile(self, seconds, ranks, *, mode, native):
        self._remember("profile", seconds, ranks, mode, native)
        return idle_profile(mode)

    def begin_profile(self, ranks, *, mode, native):
        self._remember("begin_profile", ranks, mode, native)
        return SimpleNamespace(end=lambda: self._remember("end_profile") or idle_profile(mode))

    def interrupt(self, ranks=None):
        self._remember("interrupt", ranks)
        return self.busy

    def heal(self, ranks=None, *, on_stage):
        self._remember("heal", ranks)
        on_stage("waiting for rank 2 to end")
        if ranks == "3":
            raise HealFailed("rank 3 has no place.")
        return HEALED

    def shrink(self, *, on_stage):
        on_stage("waits: rank 0 is still busy")
        return Shrunken(3, 3, {0: 0, 2: 1, 3: 2})

    def allow_agents(self, may, *, for_s):
        self._remember("allow", may, for_s)
        return GivenGrant(self.name, Grant(1, tuple(may.split(",")), 0.0), "the-token")

    def grants(self):
        return (Grant(2, ("run",), 0.0, 3, "heal by x"),)

    def revoke_grants(self, number):
        self._remember("revoke", number)
        return self.grants()

    def status(self):
        return FakeStatus(self.name)

    def topology(self):
        return f"topology of {self.name}"

    def stop(self):
        if self.problem is not None:
            raise self.problem
        del self.started[self.name]

    def note_auto(self, is_on):
        self.is_auto = is_on

    def detach(self):
        self.calls.append("detach")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def fake_cluster():
    """Make a class of clusters of which none has been started."""
    return type("Cluster", (FakeCluster,), {"started": {}})


def replace_modules(monkeypatch, fakes):
    """Put modules with these members where ours are looked for, each named as `cluster.bench`."""
    for name, members in fakes.items():
        module = ModuleType(f"jupyter_dist.{name}")
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, module.__name__, module)
