"""Packets that are lost one way: ranks end up one call apart, and it is said where data stays."""

import re

import pytest

from tests.matrix import NIGHTLY
from tests.processes.listener import Listener, begin

from .clusters import values

PLACES = ("nodeA", "nodeB")
SUMS = """
import os, numpy as np
comm.all_reduce(np.zeros(1))  # they are connected
print("here")
rounds, is_over = 0, False
while not is_over:
    rounds += 1
    is_over = bool(comm.all_reduce(np.array([rank == 0 and os.path.exists(ends)]))[0])
if rank == 0:
    os.remove(ends)
bool(comm.all_reduce(np.array([rounds]))[0] == comm.size * rounds)
"""
WAITS = re.compile(r"rank (\d) waits in all_reduce #(\d+)")


@pytest.mark.slow
@pytest.mark.parametrize(("sender", "taker"), [(0, 1), pytest.param(1, 0, marks=NIGHTLY)])
def test_who_waits_for_whose_data_and_on_which_way_it_stays_is_said(
    lab, start, in_background, within, sender, taker
):
    cluster = start("nodeA:1,nodeB:1")
    kept = values(cluster.run("import tempfile\nends = tempfile.mktemp()\nends"))
    listener = Listener()
    cell = begin(in_background, cluster, SUMS, listener)
    lab.separate(PLACES[sender], PLACES[taker], "out")
    way = f"from {PLACES[sender]} to {PLACES[taker]}"
    listener.wait_for_note(way, within_s=20)
    note = next(note for note in listener.notes if way in note)
    waits = {int(rank): int(number) for rank, number in WAITS.findall(note)}
    assert waits[sender] == waits[taker] + 1
    assert re.search(rf"rank {sender} waits [^;,]*rank {taker}\b", note)
    data = rf"all_reduce #{waits[taker]} that rank {sender} sent"
    assert re.search(rf"rank {taker} waits [^;,]*{data}", note)
    lab.heal(PLACES[sender])
    lab.run(PLACES[0], ["touch", kept[0].strip("'")])
    with within(20):
        assert values(cell.result(25)) == ["True"] * 2
    assert values(cluster.run("ends")) == kept


@pytest.mark.slow
def test_among_three_hosts_the_way_is_named_on_which_data_stays(lab, start, in_background, within):
    cluster = start("nodeA:1,nodeB:1,nodeC:1")
    kept = values(cluster.run("import tempfile\nends = tempfile.mktemp()\nends"))
    listener = Listener()
    cell = begin(in_background, cluster, SUMS, listener)
    lab.separate("nodeA", "nodeC", "out")
    listener.wait_for_note("from nodeA to nodeC", within_s=20)
    note = next(note for note in listener.notes if "from nodeA to nodeC" in note)
    assert re.search(r"rank 2 waits [^;,]*all_reduce #\d+ that rank 0 sent", note)
    lab.heal("nodeA")
    lab.run("nodeA", ["touch", kept[0].strip("'")])
    with within(20):
        assert values(cell.result(25)) == ["True"] * 3
