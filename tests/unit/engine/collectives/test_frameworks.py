import importlib
import sys
import types
from types import SimpleNamespace
from unittest.mock import Mock

import msgspec
import pytest

from jupyter_dist.engine.collectives.frameworks import Frameworks
from jupyter_dist.engine.collectives.rank_context import EngineRankContext
from jupyter_dist.errors import CollectiveTimeout, FrameworkError, PeerFailed, UsageError
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.model.ranks.held_time import HeldTime
from jupyter_dist.model.ranks.initialized import Formed, FrameworkPlan
from jupyter_dist.protocol.messages import RequestService, ServiceFound

INFO = RankInfo(1, 3, 1, 3, 0, "a")


class FakeMeetings:
    """Holds every meeting at once; values are what a test says."""

    def __init__(self):
        self.held = []
        self.values = {}

    def meet(self, purpose, kind, ranks, frames=(), **options):
        self.held.append((purpose, kind, ranks, options["claim"]))
        return {rank: [f"facts of {rank}".encode()] for rank in ranks}

    def put(self, key, value):
        self.values[key] = value

    def get(self, key, timeout_s):
        if key not in self.values:
            raise CollectiveTimeout(f"no rank has told {key!r}")
        return self.values[key]


class FakeFramework:
    """Remembers what it is told."""

    def __init__(self, name, formed=None):
        self.name = name
        self.has_formed = formed
        self.heard = []

    def formed(self):
        return self.has_formed

    def form(self, settings, reason):
        if isinstance(settings, Exception):
            raise settings
        self.heard.append((settings, reason))
        return (f"new {self.name}",)

    def install(self):
        self.heard.append("install")

    def prepare_cell(self, code):
        self.heard.append(code)

    def break_off(self, failed_rank, reason):
        self.heard.append(failed_rank)

    def expect_cell(self):
        pass

    def explain(self, error):
        return RuntimeError(self.name) if self.name in str(error) else None


@pytest.fixture
def parts():
    shell = SimpleNamespace(
        user_ns={"rank": 1, "w": 2, "_hidden": 3, "msgspec": msgspec},
        user_ns_hidden={"rank": 1},
    )
    return SimpleNamespace(
        shell=shell, collectives=FakeMeetings(), recorder=Mock(), posted=[], shown=[]
    )


@pytest.fixture
def here(parts):
    say = parts.posted.append, parts.shown.append
    made = EngineRankContext(
        INFO, "10.0.0.1", "/run", parts.shell, parts.collectives, parts.recorder, *say, HeldTime()
    )
    made.generation = 2
    return made


def test_in_a_cell_all_ranks_meet(here, parts):
    here.enter_cell((0, 1, 2), is_checked=False)
    assert here.agree("init()", b"mine") == {rank: f"facts of {rank}".encode() for rank in range(3)}
    assert parts.collectives.held == [("frameworks", "all_gather", (0, 1, 2), "init()")]


def test_a_cell_of_some_ranks_cannot_form_anything(here, parts):
    here.enter_cell((0, 1), is_checked=False)
    with pytest.raises(UsageError, match=r"init\(\) .*all 3 ranks.* 0-1 only"):
        here.agree("init()", b"mine")
    assert parts.collectives.held == []


def test_between_cells_they_find_each_other_by_values_and_who_does_not_come_is_named(here, parts):
    parts.collectives.values["init() 0"] = b"zero"
    with pytest.raises(CollectiveTimeout, match="rank 2"):
        here.agree("init()", b"mine", timeout_s=0.1)
    parts.collectives.values["init() 2"] = b"two"
    assert here.agree("init()", b"mine") == {0: b"zero", 1: b"mine", 2: b"two"}
    assert parts.collectives.values["init() 1"] == b"mine"


def test_a_service_is_wanted_and_found_or_why_there_is_none_is_raised(here, parts):
    answers = {
        "service jax at 0": ServiceFound("10.0.0.1:99"),
        "service jax at 2 h:1": ServiceFound("", "h:1 is in use"),
    }
    parts.collectives.values = {key: msgspec.msgpack.encode(it) for key, it in answers.items()}
    assert here.service_address("jax") == "10.0.0.1:99"
    assert parts.posted == [RequestService(1, 2, "jax", 0, "")]
    with pytest.raises(FrameworkError, match="h:1"):
        here.service_address("jax", 2, "h:1")


def test_calls_are_recorded_in_a_group_of_their_own(here, parts):
    here.begin_call("jax", "jit(step)", 5, dtype="float32", shape="8")
    (call,) = parts.recorder.begin.call_args.args
    assert (call.signature.group, call.operation, call.sequence) == ("0-2~jax", "jit(step)", 5)


def test_their_own_code_is_not_taken_for_the_users(here, parts, monkeypatch):
    package = types.ModuleType("torch")
    package.__path__ = ["/lib/torch"]
    monkeypatch.setitem(sys.modules, "torch", package)
    for number in (1, 2):
        here.begin_call("torch", "all_reduce", number, ranks=(0, 2))
    parts.recorder.pass_through.assert_called_once_with("/lib/torch")
    begun = [each.args[0] for each in parts.recorder.begin.call_args_list]
    assert [call.signature.group for call in begun] == ["0,2~torch"] * 2


def test_the_user_has_what_neither_we_nor_an_import_has_put_there(here):
    assert here.user_namespace() == {"w": 2}


def test_what_is_said_outside_a_cell_is_told_in_the_next_one(here, parts):
    here.tell("the mesh is new")
    here.enter_task()
    assert (here.cell_ranks, here.is_in_task) == ((1,), True)
    here.tell("and so is this")
    assert parts.shown == []
    with pytest.raises(UsageError, match="ipyparallel"):
        here.agree("initialize()", b"")
    here.leave_cell()
    assert not here.is_in_task
    here.enter_cell((1,), is_checked=True)
    here.tell("and this at once")
    told = ["the mesh is new", "and so is this", "and this at once"]
    assert [output.text for output in parts.shown] == told
    here.leave_cell()
    assert (here.cell_ranks, here.is_checked) == ((), False)


def test_the_only_rank_agrees_with_itself_in_a_task(here):
    here.info = RankInfo(0, 1, 0, 1, 0, "here")
    here.enter_task()
    assert here.agree("initialize()", b"facts") == {0: b"facts"}


def test_only_what_is_not_kept_is_formed_anew(here):
    jax, torch = FakeFramework("jax"), FakeFramework("torch")
    frameworks = Frameworks(here, (jax, torch))
    plans = (FrameworkPlan("jax", is_kept=True), FrameworkPlan("torch", False, "why", "gloo"))
    assert frameworks.enter_generation(INFO, 7, plans) == ("new torch",)
    assert (jax.heard, torch.heard) == ([], [("gloo", "why")])
    assert here.generation == 7


def test_what_was_formed_and_what_an_error_means_is_told_of_the_first_that_knows(here):
    formed = Formed("torch", 2, 3)
    frameworks = Frameworks(here, (FakeFramework("jax"), FakeFramework("torch", formed)))
    assert frameworks.formed() == (formed,)
    assert str(frameworks.explain(ValueError("torch: torn"))) == "torch"
    unknown = ValueError("boom")
    assert frameworks.explain(unknown) is unknown


class Odd(Exception):
    """Of someone's object, which cannot even be written down."""

    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "text", "is_bug"),
    [
        (FrameworkError("there is none"), "there is none", False),
        (RuntimeError("torn"), "torn", True),
        (KeyError(3), "3", True),
        (Odd(), "<Odd, whose str raised RuntimeError>", True),
    ],
)
def test_what_cannot_be_formed_is_a_note_and_does_not_keep_others_from_it(
    here, error, text, is_bug, capsys
):
    frameworks = Frameworks(here, (FakeFramework("jax"), FakeFramework("torch")))
    plans = (FrameworkPlan("jax", settings=error), FrameworkPlan("torch"))
    notes = frameworks.enter_generation(INFO, 7, plans)
    assert notes[0].startswith("jax ")
    assert notes[0].endswith(f": {text}")
    assert notes[1:] == ("new torch",)
    assert ("Traceback" in capsys.readouterr().err) == is_bug


def test_a_loss_while_one_is_formed_ends_the_generation_and_is_no_note(here):
    frameworks = Frameworks(here, (FakeFramework("jax"),))
    with pytest.raises(PeerFailed):
        frameworks.enter_generation(
            INFO, 7, (FrameworkPlan("jax", settings=PeerFailed(2, "is lost")),)
        )
    assert not frameworks.is_forming


class BrokenFramework(FakeFramework):
    """Has bugs everywhere."""

    def fail(self, *_):
        raise RuntimeError("a bug")

    formed = explain = expect_cell = break_off = look = leave = fail


def test_a_bug_in_one_framework_neither_ends_the_rank_nor_hinders_others(here, capsys):
    formed = Formed("torch", 2, 3)
    frameworks = Frameworks(here, (BrokenFramework("jax"), FakeFramework("torch", formed)))
    assert frameworks.formed() == (formed,)
    assert str(frameworks.explain(ValueError("torch: torn"))) == "torch"
    frameworks = Frameworks(here, (BrokenFramework("jax"),))
    frameworks.expect_cell()
    frameworks.break_off(1, "raised")
    frameworks.look()
    frameworks.leave()
    assert capsys.readouterr().err.count("RuntimeError: a bug") == 6


@pytest.fixture
def hooks():
    hooks = ImportHooks()
    hooks.install()
    yield hooks
    sys.meta_path.remove(hooks)


@pytest.fixture
def mpi4py(tmp_path, monkeypatch):
    (tmp_path / "mpi4py.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mpi4py", raising=False)
    yield
    sys.modules.pop("mpi4py", None)


@pytest.mark.parametrize("way", ["import", "cell", "formed"])
def test_one_that_is_expected_is_made_when_it_is_needed(here, hooks, mpi4py, way):
    torch, mpi = FakeFramework("torch"), FakeFramework("mpi")
    frameworks = Frameworks(here, (torch,))
    frameworks.expect("mpi", "mpi4py", hooks, lambda: mpi)
    frameworks.prepare_cell("x = 1")
    assert mpi.heard == []
    if way == "import":
        importlib.import_module("mpi4py")
        assert mpi.heard == ["install"]
    elif way == "cell":
        frameworks.prepare_cell("import mpi4py")
        importlib.import_module("mpi4py")
        assert mpi.heard == ["install", "import mpi4py"]
    else:
        frameworks.enter_generation(INFO, 7, (FrameworkPlan("mpi", False, "why", "world"),))
        assert mpi.heard == ["install", ("world", "why")]
    assert str(frameworks.explain(ValueError("mpi: torn"))) == "mpi"


def test_one_whose_package_is_there_is_made_at_once(here, hooks):
    frameworks, framework = Frameworks(here, ()), FakeFramework("jax")
    frameworks.expect("jax", "sys", hooks, lambda: framework)
    assert framework.heard == ["install"]


def test_one_that_is_made_in_a_cell_learns_which_rank_of_it_has_failed(here, hooks):
    frameworks, jax, mpi = Frameworks(here, ()), FakeFramework("jax"), FakeFramework("mpi")
    frameworks.expect("jax", "no_such_jax", hooks, lambda: jax)
    frameworks.expect("mpi", "no_such_mpi", hooks, lambda: mpi)
    frameworks.break_off(2, "raised")
    frameworks.prepare_cell("no_such_jax")
    frameworks.expect_cell()
    frameworks.prepare_cell("no_such_mpi")
    assert jax.heard == ["install", 2, "no_such_jax", "no_such_mpi"]
    assert mpi.heard == ["install", "no_such_mpi"]
