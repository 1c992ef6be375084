import sys
import types
from types import SimpleNamespace

import msgspec
import pytest

from jupyter_dist.engine.frameworks import Frameworks
from jupyter_dist.engine.surroundings import RankSurroundings
from jupyter_dist.errors import CollectiveTimeout, FrameworkError, PeerFailed, UsageError
from jupyter_dist.model.formed import Formed, FrameworkPlan
from jupyter_dist.model.rank import RankInfo
from jupyter_dist.protocol.messages import RunCell, ServiceFound, WantService

INFO = RankInfo(1, 3, 1, 3, 0, "a")
CELL = RunCell("cell-1", 2, "import jax", (0, 1, 2))


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


class FakeRecorder:
    """Keeps the calls that were begun."""

    site = "In[1]:2"

    def __init__(self):
        self.begun = []
        self.passed = []

    def pass_through(self, directory):
        self.passed.append(directory)

    def begin(self, call):
        self.begun.append(call)
        return len(self.begun)


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
        return (f"{self.name} is new",)

    def explain(self, error):
        return RuntimeError(self.name) if self.name in str(error) else None


@pytest.fixture
def parts():
    shell = SimpleNamespace(
        user_ns={"rank": 1, "w": 2, "_hidden": 3, "msgspec": msgspec},
        user_ns_hidden={"rank": 1},
    )
    return SimpleNamespace(
        shell=shell, meetings=FakeMeetings(), recorder=FakeRecorder(), posted=[], shown=[]
    )


@pytest.fixture
def here(parts):
    made = RankSurroundings(
        INFO,
        "10.0.0.1",
        "/run",
        parts.shell,
        parts.meetings,
        parts.recorder,
        parts.posted.append,
        parts.shown.append,
    )
    made.generation = 2
    return made


def test_in_a_cell_all_ranks_meet(here, parts):
    here.enter_cell((0, 1, 2), is_checked=False)
    assert here.agree("init()", b"mine") == {rank: f"facts of {rank}".encode() for rank in range(3)}
    assert parts.meetings.held == [("frameworks", "all_gather", (0, 1, 2), "init()")]


def test_a_cell_of_some_ranks_cannot_form_anything(here, parts):
    here.enter_cell((0, 1), is_checked=False)
    with pytest.raises(UsageError, match=r"init\(\) needs all 3 ranks.*runs on ranks 0-1 only"):
        here.agree("init()", b"mine")
    assert parts.meetings.held == []


def test_between_cells_they_find_each_other_by_values(here, parts):
    parts.meetings.values |= {"init() 0": b"zero", "init() 2": b"two"}
    assert here.agree("init()", b"mine") == {0: b"zero", 1: b"mine", 2: b"two"}
    assert parts.meetings.values["init() 1"] == b"mine"


def test_between_cells_who_does_not_come_is_named(here, parts):
    parts.meetings.values["init() 0"] = b"zero"
    with pytest.raises(CollectiveTimeout, match="rank 2 did not come to init"):
        here.agree("init()", b"mine", timeout_s=0.1)


def test_a_service_is_wanted_and_found(here, parts):
    key = "service jax at 0"
    parts.meetings.values[key] = msgspec.msgpack.encode(ServiceFound("10.0.0.1:99"))
    assert here.service_address("jax") == "10.0.0.1:99"
    assert parts.posted == [WantService(1, 2, "jax", 0, "")]


def test_why_there_is_no_service_is_raised(here, parts):
    parts.meetings.values["service jax at 2 h:1"] = msgspec.msgpack.encode(
        ServiceFound("", "h:1 is in use")
    )
    with pytest.raises(FrameworkError, match="h:1 is in use"):
        here.service_address("jax", 2, "h:1")


def test_calls_are_recorded_in_a_group_of_their_own(here, parts):
    here.begin_call("jax", "jit(step)", 5, dtype="float32", shape="8")
    (call,) = parts.recorder.begun
    assert (call.signature.group, call.operation, call.sequence) == ("0-2~jax", "jit(step)", 5)


def test_their_own_code_is_not_taken_for_the_users(here, parts, monkeypatch):
    package = types.ModuleType("torch")
    package.__path__ = ["/lib/torch"]
    monkeypatch.setitem(sys.modules, "torch", package)
    for number in (1, 2):
        here.begin_call("torch", "all_reduce", number, ranks=(0, 2))
    assert parts.recorder.passed == ["/lib/torch"]
    assert {call.signature.group for call in parts.recorder.begun} == {"0,2~torch"}


def test_the_user_has_what_neither_we_nor_an_import_has_put_there(here):
    assert here.user_namespace() == {"w": 2}


def test_what_is_said_outside_a_cell_is_told_in_the_next_one(here, parts):
    here.tell("the mesh is new")
    assert parts.shown == []
    here.enter_cell((1,), is_checked=True)
    here.tell("and this at once")
    assert [output.text for output in parts.shown] == ["the mesh is new", "and this at once"]
    here.leave_cell()
    assert (here.cell_ranks, here.is_checked) == ((), False)


def test_a_task_is_of_one_rank_and_its_client_is_told_nothing_of_ours(here, parts):
    here.tell("the mesh is new")
    here.enter_task()
    assert (here.cell_ranks, here.is_in_task) == ((here.info.rank,), True)
    here.tell("and so is this")
    assert not parts.shown
    with pytest.raises(
        UsageError, match=r"and this task of ipyparallel runs on rank \d only\. Call"
    ):
        here.agree("initialize()", b"")
    here.leave_cell()
    assert (here.cell_ranks, here.is_in_task) == ((), False)
    here.enter_cell((here.info.rank,), False)
    assert [output.text for output in parts.shown] == ["the mesh is new", "and so is this"]


def test_the_only_rank_agrees_with_itself_in_a_task(here):
    here.info = RankInfo(0, 1, 0, 1, 0, "here")
    here.enter_task()
    assert here.agree("initialize()", b"facts") == {0: b"facts"}


def test_only_what_is_not_kept_is_formed_anew(here):
    jax, torch = FakeFramework("jax"), FakeFramework("torch")
    frameworks = Frameworks(here, (jax, torch))
    plans = (FrameworkPlan("jax", is_kept=True), FrameworkPlan("torch", False, "why", "gloo"))
    assert frameworks.enter_generation(INFO, 7, plans) == ("torch is new",)
    assert (jax.heard, torch.heard) == ([], [("gloo", "why")])
    assert here.generation == 7


def test_what_cannot_be_formed_is_a_note_and_does_not_keep_others_from_it(here):
    frameworks = Frameworks(here, (FakeFramework("jax"), FakeFramework("torch")))
    plans = (FrameworkPlan("jax", settings=FrameworkError("there is none")), FrameworkPlan("torch"))
    notes = frameworks.enter_generation(INFO, 7, plans)
    assert notes == ("jax could not be formed anew: there is none", "torch is new")


def test_what_was_formed_is_told_of_all(here):
    formed = Formed("torch", 2, 3)
    frameworks = Frameworks(here, (FakeFramework("jax"), FakeFramework("torch", formed)))
    assert frameworks.formed() == (formed,)


def test_the_first_that_knows_better_explains_an_error(here):
    frameworks = Frameworks(here, (FakeFramework("jax"), FakeFramework("torch")))
    assert str(frameworks.explain(ValueError("torch: torn"))) == "torch"
    unknown = ValueError("boom")
    assert frameworks.explain(unknown) is unknown


class Odd(Exception):
    """Of somebody's object, which cannot even be written down."""

    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("torn"), "torn"),
        (KeyError(3), "3"),
        (Odd(), "<Odd, whose str raised RuntimeError>"),
    ],
)
def test_whatever_is_raised_while_one_is_formed_is_a_note(here, error, text, capsys):
    frameworks = Frameworks(here, (FakeFramework("jax"),))
    notes = frameworks.enter_generation(INFO, 7, (FrameworkPlan("jax", settings=error),))
    assert notes == (f"jax could not be formed anew: {text}",)
    assert "Traceback" in capsys.readouterr().err


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
