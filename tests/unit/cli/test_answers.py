"""What commands answer programs."""

import json
import re

import msgspec
import pytest
from fakes.cluster import HEALED

from jupyter_dist.checkpoint.report import CheckpointRestored, CheckpointSaved
from jupyter_dist.checkpoint.table import CheckpointTable
from jupyter_dist.cli.__main__ import main
from jupyter_dist.cli.answers import as_plain
from jupyter_dist.cluster.collectives.collective_table import CollectiveTable
from jupyter_dist.cluster.collectives.timeline_file import WrittenTimeline
from jupyter_dist.cluster.doctor.diagnosis import Diagnosis
from jupyter_dist.cluster.healing import Healed, Shrunken
from jupyter_dist.cluster.running import RunningCluster
from jupyter_dist.cluster.variables.names_table import NamesTable
from jupyter_dist.model.bench.measurements import BenchReport
from jupyter_dist.model.hosts.topology import Topology
from jupyter_dist.model.ranks.stacks import Frame, RankStacks
from jupyter_dist.protocol.messages import KeptCell
from tests.architecture.sources import ROOT

PAGE = (ROOT / "docs" / "reference" / "json.md").read_text()
ANSWERS = {
    "check": Diagnosis,
    "bench": BenchReport,
    "timeline": WrittenTimeline,
    "status": Topology,
    "who": NamesTable,
    "collectives": CollectiveTable,
    "heal": Healed,
    "shrink": Shrunken,
    "checkpoint": CheckpointSaved,
    "restore": CheckpointRestored,
    "checkpoints": CheckpointTable,
    "list": RunningCluster,
}


@pytest.mark.parametrize("command", ANSWERS)
def test_the_page_names_every_field_of_an_answer_and_no_other(command):
    (row,) = re.findall(rf"^\| `{command}` \| (.*) \|$", PAGE, re.MULTILINE)
    named = re.sub(r"\(.*?\)", "", row)
    assert re.findall(r"`(\w+)`", named) == [*ANSWERS[command].__struct_fields__]


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        ("status", {"cluster", "state"}),
        ("explain", {"text"}),
        ("stacks", {"ranks"}),
        ("who", {"ranks", "rows", "memory", "notes", "infos"}),
        ("collectives", {"ranks", "rows", "verdict", "notes"}),
        ("interrupt", {"ranks"}),
        ("heal", {"generation", "replaced", "replayed", "problems", "missing", "notes"}),
        ("shrink", {"generation", "world_size", "renumbered", "notes"}),
    ],
)
def test_an_answer_is_one_object_on_stdout(dist, demo, command, fields):
    status, out, _ = dist(command, "demo", "--json")
    assert status == 0
    assert {*json.loads(out)} == fields
    assert out.count("\n") == 1


def test_commands_that_do_something_answer_too(dist, demo):
    demo.timeline = lambda path, **_: WrittenTimeline(path, 2, 1, 3, 0)
    for words, field in (
        ("timeline trace.json", "path"),
        ("allow agent --for 1h --may run", "token"),
        ("allow", "grants"),
        ("allow --revoke 2", "revoked"),
        ("start --name other", "ranks"),
        ("stop other", "stopped"),
    ):
        status, out, _ = dist(*words.split(), "--json")
        assert (status, field in json.loads(out), out.count("\n")) == (0, True, 1), words
    assert json.loads(dist("sync", "mypkg", "--json", "--reload")[1])["changed_count"] == 1


@pytest.mark.parametrize(
    ("words", "status", "name"),
    [
        ("status nope", 2, "NoCluster"),
        ("heal --ranks 3", 1, "HealFailed"),
        ("heal --resume nowhere --ranks 3", 1, "HealFailed"),
        ("start --cwd /broken --name b", 1, "StartFailed"),
        ("start --cwd /long --name b", 130, "KeyboardInterrupt"),
        ("collectives --last 0", 2, "UsageError"),
        ("who --rankz 0", 2, "UsageError"),
        ("stacks a b", 2, "UsageError"),
        ("sync nope", 1, "SyncFailed"),
        ("timeline mine.json", 2, "UsageError"),
    ],
)
def test_what_has_gone_wrong_is_an_object_too(dist, demo, words, status, name):
    ended, out, err = dist(*words.split(), "--json")
    told = json.loads(out)
    assert (ended, told["exit_status"], told["error"]) == (status, status, name)
    assert err.endswith(f"jupyter dist: {told['message']}\n")
    assert "exit_status" not in dist(*words.split())[1]


def test_a_defect_is_told_to_programs_and_raised_again(demo, capsys):
    demo.problem = ZeroDivisionError("a defect")
    with pytest.raises(ZeroDivisionError):
        main(["interrupt", "demo", "--json"])
    assert json.loads(capsys.readouterr().out)["error"] == "ZeroDivisionError"


def test_structs_are_objects_and_ranks_are_names():
    found = as_plain({1: RankStacks(note="x"), 2: (Frame("f", "In[1]:2"),)})
    assert [*found] == ["1", "2"]
    assert found["1"]["note"] == "x"
    assert found["2"] == [{"function": "f", "site": "In[1]:2", "code": ""}]
    assert as_plain(HEALED)["replaced"] == {"2": "nodeB"}
    assert msgspec.json.encode(as_plain(HEALED))


KEPT = KeptCell("a", "In[3]", "x = 1", (0, 1), 1.5, is_running=False)


def test_cells_that_are_kept_are_listed(dist, demo):
    demo.kept = (KEPT,)
    assert json.loads(dist("output", "--list", "--json")[1]) == {"cells": [as_plain(KEPT)]}
    assert "In[3]" in dist("output", "--list")[1]
