"""The protocol is whole: every message, each in one direction, readable for years."""

import re
import typing

import msgspec
import pytest

from jupyter_dist.errors import ErrorCode, MalformedMessage, VersionMismatch
from jupyter_dist.model.hosts.axes import Axes
from jupyter_dist.model.hosts.rank import RankInfo
from jupyter_dist.model.hosts.start_stage import HostProgress, StartStage
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.model.ranks.crashes.crash import CrashReport
from jupyter_dist.model.ranks.initialized import Formed, FrameworkPlan
from jupyter_dist.model.ranks.preemption_agreement import Position, SavePoint
from jupyter_dist.model.ranks.stacks import Frame, RankStacks, ThreadStack
from jupyter_dist.model.ranks.variable_facts import NameInfo, RankNames
from jupyter_dist.model.spec.error_policy import OnError
from jupyter_dist.protocol import codec, describe, messages
from jupyter_dist.protocol.messages import (
    AnswerInput,
    CellNote,
    Command,
    ErrorInfo,
    InputShown,
    Message,
    Output,
    OutputSeen,
    RankFinished,
    RankOutput,
    RunCell,
)
from jupyter_dist.protocol.places import Place

from .sources import ROOT

DIRECTIONS = {
    "ToCoordinator": (messages.ToCoordinator, codec.from_engine),
    "ToEngine": (messages.ToEngine, codec.to_engine),
    "FromClient": (messages.FromClient, codec.from_client),
    "ToClient": (messages.ToClient, codec.to_client),
}
MESSAGES = [  # also those that someone forgot to hand on in messages/__init__.py
    kind
    for base in (Message, *Message.__subclasses__())
    for kind in base.__subclasses__()
    if kind.__module__.startswith(messages.__name__) and not kind.__subclasses__()
]
GOLDEN = bytes.fromhex(
    "86a474797065a752756e43656c6ca763656c6c5f6964a663656c6c2d31aa67656e65726174696f6e02a4636f64"
    "65aa73686f772872616e6b29a572616e6b73920001a56c6162656c03"
)
"""RunCell("cell-1", 2, "show(rank)", (0, 1), 3) as version 1 of the protocol writes it."""

MAIN = ThreadStack("MainThread", True, (Frame("train", "In[3]:7", "step()"),))
GRANT = messages.Grant(1, ("run", "heal"), 1.5e9, 3, "run In[10001] by x")
CELL = messages.KeptCell("cell-3", "In[3]", "x = 1", (0, 2), 1.5e9, True, 7)
SAMPLES = {
    str: "text",
    int: 7,
    float: 1.5,
    bool: True,
    bytes: b"\x00\xff",
    str | None: "text",
    float | None: 2.5,
    ErrorInfo | None: ErrorInfo("ValueError", "boom", ("line",), 2),
    ErrorCode: ErrorCode.HEAL_FAILED,
    messages.Stops | None: messages.Stops(7, "loss != loss", (0, 2), on_error=True),
    Command | None: Command("bench", "%dist_bench", b"\x80"),
    tuple[int, ...]: (0, 2),
    tuple[tuple[int, int], ...]: ((2, 4), (1, 3)),
    tuple[int, ...] | None: (1,),
    tuple[int, int]: (3, 4),
    tuple[str, ...]: ("a", "b"),
    dict[str, str]: {"a": "b"},
    dict[int, str]: {2: "lost"},
    dict[str, float]: {"ssh": 0.5},
    dict[str, tuple[str, ...]]: {"mypkg.model": ("a", "b")},
    tuple[Output, ...]: (Output("display", data={"text/plain": "1"}, display_id="d"),),
    tuple[messages.CellEvent, ...]: (
        RankOutput((0,), (Output("stdout", "a\n"),)),
        RankFinished(1, "raised", 0.5, None, ErrorInfo("KeyError", "'a'")),
        RankFinished(2, "lost", 0.5, crash=CrashReport(rank=2, host="b", reason="killed")),
        messages.RanksOk((3, 4), (0.5, 0.25)),
        CellNote("rank 0 waits"),
    ),
    tuple[Formed, ...]: (Formed("jax", 2, 4, 17, True, "{}"),),
    tuple[FrameworkPlan, ...]: (FrameworkPlan("torch", False, "rank 2 is new", "gloo"),),
    dict[int, int]: {2: 1},
    dict[int, tuple[int, ...]]: {2: (3, 5)},
    dict[str, tuple[int, ...]]: {"model": (2, 3)},
    OnError: OnError.WAIT,
    messages.About: messages.CompleteCode("x.", 2),
    messages.Answer: RankStacks("faulthandler", (MAIN,), "R", "slow"),
    dict[int, messages.Answer]: {
        0: RankNames((NameInfo("x", "int", preview="3", digest="d"),), 2, 1 << 30),
        1: RankStacks("python", (MAIN,)),
        2: messages.Completions(("abs", "all"), 0, 1),
        3: messages.Inspection({"text/plain": "int"}),
        4: messages.NoAnswer("it raised"),
    },
    messages.KeptCell: CELL,
    messages.KeptCell | None: CELL,
    tuple[messages.KeptCell, ...]: (CELL,),
    messages.Grant: GRANT,
    tuple[messages.Grant, ...]: (GRANT,),
    tuple[messages.KernelRole, ...]: (messages.KernelRole("1-2", "own", 1.5e9, is_auto=True),),
    tuple[CrashReport, ...]: (CrashReport(rank=1, host="a", reason="killed", signal=9),),
    tuple[HostProgress, ...]: (
        HostProgress("a", StartStage.ENGINES, 0, 8, 0.4, True, 3, "", {"agent": 1.5}),
        HostProgress("b", StartStage.LOST, 0, 0, 2.0, note="refused", passed_s={"ssh": 0.1}),
    ),
    Axes: Axes(("data",), (2,), (1, 0), 3),
    RankInfo: RankInfo(1, 2, 1, 2, 0, "a"),
    Position: Position("cell-3", 17, 40),
    SavePoint: SavePoint("cell-3", 18, 41, True),
    Topology: Topology(cluster="demo"),
    dict[int, Place]: {3: Place("10.0.0.1:4000", "a")},
}


def direction_of(kind):
    (found,) = (name for name, (union, _) in DIRECTIONS.items() if kind in typing.get_args(union))
    return found


def sample(kind):
    """Make an instance with every field set to something that is not its default."""
    hints = typing.get_type_hints(kind)
    return kind(**{name: SAMPLES[hints[name]] for name in kind.__struct_fields__})


def names(kinds):
    return [kind.__name__ for kind in kinds]


@pytest.mark.parametrize("kind", MESSAGES, ids=names(MESSAGES))
def test_a_message_belongs_to_exactly_one_direction(kind):
    homes = [name for name, (union, _) in DIRECTIONS.items() if kind in typing.get_args(union)]
    assert len(homes) == 1


@pytest.mark.parametrize("kind", MESSAGES, ids=names(MESSAGES))
def test_a_message_is_handed_on_by_the_package(kind):
    assert getattr(messages, kind.__name__) is kind, "import its module in messages/__init__.py"


@pytest.mark.parametrize("kind", MESSAGES, ids=names(MESSAGES))
def test_a_message_cannot_be_changed_and_is_tagged_with_its_name(kind):
    assert kind.__struct_config__.frozen
    assert kind.__struct_config__.tag == kind.__name__
    assert kind.__struct_config__.tag_field == "type"


@pytest.mark.parametrize("kind", MESSAGES, ids=names(MESSAGES))
def test_a_message_comes_back_as_it_was(kind):
    message = sample(kind)
    _, decoder = DIRECTIONS[direction_of(kind)]
    assert decoder().decode(codec.encode(message, [b"frame"])) == message


@pytest.mark.parametrize("kind", MESSAGES, ids=names(MESSAGES))
def test_a_message_for_another_side_is_refused(kind):
    frames = codec.encode(sample(kind))
    for name, (_, decoder) in DIRECTIONS.items():
        if name != direction_of(kind):
            with pytest.raises(MalformedMessage, match="not a message for this side"):
                decoder().decode(frames)


@pytest.mark.parametrize("kind", MESSAGES, ids=names(MESSAGES))
def test_a_field_that_a_newer_side_added_is_ignored(kind):
    message = sample(kind)
    fields = {**msgspec.to_builtins(message, builtin_types=(bytes,)), "added_later": [1, 2]}
    frames = [codec.VERSION, msgspec.msgpack.encode(fields)]
    _, decoder = DIRECTIONS[direction_of(kind)]
    assert decoder().decode(frames) == message


@pytest.mark.parametrize("name", DIRECTIONS)
def test_another_version_is_refused_and_both_are_named(name):
    _, decoder = DIRECTIONS[name]
    with pytest.raises(VersionMismatch) as caught:
        decoder().decode([b"jupyter-dist/9", b""])
    assert "jupyter-dist/9" in str(caught.value)
    assert "jupyter-dist/4" in str(caught.value)


def test_the_bytes_of_this_version_are_understood():
    message = RunCell("cell-1", 2, "show(rank)", (0, 1), 3)
    assert codec.VERSION == b"jupyter-dist/4"
    assert codec.to_engine().decode([b"jupyter-dist/4", GOLDEN]) == message


def test_every_request_of_a_client_can_be_answered():
    requests = set(typing.get_args(messages.FromClient))
    requests -= {OutputSeen, InputShown, AnswerInput, messages.CommsSeen}
    without = [kind.__name__ for kind in requests if "request_id" not in kind.__struct_fields__]
    assert without == []


def test_everything_an_engine_says_tells_its_rank():
    """The coordinator refuses what speaks for another rank than the one that sent it."""
    said = typing.get_args(messages.ToCoordinator)
    assert [kind.__name__ for kind in said if kind.__struct_fields__[0] != "rank"] == []


def test_everything_about_a_communicator_tells_its_generation():
    kinds = ("Hello", "Ready", "NotReady", "Welcome", "RunCell", "AbortCommunicator", "Regroup")
    for kind in kinds:
        assert "generation" in getattr(messages, kind).__struct_fields__


@pytest.mark.parametrize("kind", MESSAGES, ids=names(MESSAGES))
def test_a_message_is_explained_and_drawn(kind):
    assert kind.__doc__ != Message.__doc__
    assert re.search(rf"\b{kind.__name__}\b", messages.__doc__), "draw it in messages/__init__.py"


def test_the_page_about_the_protocol_is_up_to_date():
    """Write it again with `python -m jupyter_dist.protocol.describe > docs/reference/protocol.md`."""
    assert (ROOT / "docs" / "reference" / "protocol.md").read_text() == describe.describe()
