"""A defect of the coordinator costs no rank what it has: it is told, and all else goes on."""

import os

import pytest

from jupyter_dist.coordinator.own_errors import FATAL
from tests.matrix import only
from tests.patience import wait_until

from .listener import Listener, begin

DEFECT = """
import os, sys
if "jupyter_dist.coordinator" in sys.orig_argv:
    from jupyter_dist.coordinator.{module} import {owner}
    right = {owner}.{method}
    def wrong(self, *args, **options):
        if os.path.exists({flag!r}):
            raise LookupError("made by a test")
        return right(self, *args, **options)
    {owner}.{method} = wrong
"""
CELL = """
import os, time
print("here")
while comm.all_reduce(int(os.path.exists(flag)), "min"):  # all see the same
    print("more")
    time.sleep(0.05)
"""


@pytest.fixture
def flag(tmp_path, monkeypatch):
    monkeypatch.delenv(FATAL)
    return tmp_path / "flag"


@pytest.mark.parametrize(
    "place",
    only(
        ["cells.cell_run.CellRun.on_message"],
        [
            "ticks.Ticks.look",
            "cells.cell_run.CellRun.on_message",
            "agent_events.AgentEvents.take",
            "observation.attention.Attention.tick",
        ],
    ),
)
def test_a_defect_is_told_and_ranks_go_on(start, first_of_all, in_background, flag, place):
    module, owner, method = place.rsplit(".", 2)
    first_of_all(DEFECT.format(module=module, owner=owner, method=method, flag=str(flag)))
    cluster = start("localhost:2", lost_after_s=4.0)
    cluster.push({"flag": f"{flag}-cell"})
    cluster.run("kept = rank")
    flag.with_name("flag-cell").touch()
    listener = Listener()
    cell = begin(in_background, cluster, CELL, listener)
    flag.touch()
    wait_until(lambda: "made by a test" in cluster.topology().note, 10, "it is told in the picture")
    flag.unlink()
    listener.wait_for_note("made by a test", within_s=10)
    os.unlink(f"{flag}-cell")
    assert cell.result(20).ok
    assert [rank.value_repr for rank in cluster.run("kept")] == ["0", "1"]
    assert set(cluster.status().ranks.values()) == {"idle"}
