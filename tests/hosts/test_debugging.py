"""Hosts and networks that fail while a rank is stopped in the debugger."""

import time

import pytest

from tests.facts import assert_tells
from tests.processes.leftovers import wait_until
from tests.processes.people import ended, spawn, terminal  # noqa: F401  (fixtures of these tests)
from tests.processes.results import values

BREAK_S = 4.0
"""Less than what ends a host, and more than what makes it suspect."""
PROMPT = r"(?P<who>ranks? [^\r\n]*): [(]Pdb[)] "


@pytest.fixture
def cluster(start):
    """Three ranks on hosts of their own."""
    return start("nodeA:1,nodeB:1,nodeC:1")


@pytest.fixture
def person(cluster, terminal):  # noqa: F811
    """Rank 1 is stopped, and the others wait for it."""
    values(cluster.run("kept = rank * 7"))
    person = terminal("if rank == 1: breakpoint()\ncomm.barrier()\nrank")
    person.expect(PROMPT)
    wait_until(lambda: "ranks 0,2 wait in barrier" in cluster.explain(), 10, "the others wait")
    return person


@pytest.mark.slow
def test_a_host_that_is_cut_off_while_its_rank_is_stopped_ends_the_prompt_and_releases_the_others(
    lab, cluster, person
):
    lab.cut("nodeB")
    assert ended(person)[:3] == ["peer_failed", "lost", "peer_failed"]
    assert_tells(person.before, "PeerFailed on ranks 0,2", "rank 1 is lost")
    assert "Pdb" not in person.before, "no one is asked for a rank that is lost"
    assert set(cluster.heal().replaced) == {1}
    assert values(cluster.run("comm.barrier()\nglobals().get('kept')")) == ["0", None, "14"]


@pytest.mark.slow
def test_a_break_of_some_seconds_costs_neither_the_prompt_nor_a_rank(lab, person):
    lab.drop("nodeB")
    person.sendline("p kept")
    time.sleep(BREAK_S)  # the break itself; there is no event at its end but ours
    lab.heal("nodeB")
    person.expect(PROMPT)
    assert "7" in person.before
    person.sendline("c")
    assert ended(person)[:3] == ["0", "1", "2"]
