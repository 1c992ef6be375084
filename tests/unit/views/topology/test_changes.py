"""What pages are told of a topology: nothing twice, and nothing wrong."""

import math
import random

import msgspec
import pytest
from msgspec.structs import replace

from jupyter_dist.model.hosts.topology import (
    CollectiveView,
    EngineView,
    GpuView,
    HostView,
    Topology,
)
from jupyter_dist.views.topology.changes import Teller, tell_whole
from tests.told_page import ToldPage

AGES = ("beat_age_s", "busy_s", "seconds", "sampled_s", "xid_age_s")


def an_engine(rank=0, **more):
    known = {"pid": 40 + rank, "state": "busy", "cell": "In[3]", "busy_s": 4.0, "beat_age_s": 0.3}
    return EngineView(rank=rank, local_rank=rank, **{**known, **more})


def a_topology(*engines, sequence=1, **more):
    host = HostView(name="a", state="up", engines=engines or (an_engine(),), **more)
    return Topology(cluster="x", state="ready", sequence=sequence, hosts=(host,))


def told_after(first, second, passed_s=0.5):
    teller = Teller()
    teller.tell(first, 10.0)
    return teller.tell(second, 10.0 + passed_s)


def assert_same(shown, topology):
    """Numbers are rounded and ages may be a little wrong; all else is what it is."""

    def compare(seen, true, name):
        if isinstance(true, dict):
            assert set(seen) == set(true)
            for each in true:
                compare(seen[each], true[each], each)
        elif isinstance(true, list) and name in ("hosts", "engines", "gpus"):
            assert len(seen) == len(true)
            for one, other in zip(seen, true, strict=True):
                compare(one, other, name)
        elif name in AGES:
            assert seen == pytest.approx(true, abs=3.1 if name == "sampled_s" else 1.6)
        elif name.endswith("_bytes"):
            assert seen == true & -(1 << 20)
        elif isinstance(true, float):
            assert seen == pytest.approx(true, abs=0.51)
        else:
            assert seen == true

    compare(shown, msgspec.json.decode(msgspec.json.encode(topology)), "")


def test_the_first_thing_that_is_told_is_the_whole():
    told = Teller().tell(a_topology(), 3.0)
    assert (told.base, told.number) == (0, 1)
    page = ToldPage()
    page.take(told)
    assert_same(page.state, a_topology())


def test_of_what_is_as_it_was_nothing_is_told():
    told = told_after(a_topology(), a_topology(an_engine(busy_s=4.5, beat_age_s=0.9)))
    assert (told.base, told.number, told.passed_s) == (1, 2, 0.5)
    assert told.change == {}


def test_of_a_rank_only_what_changed_is_told():
    engines = [an_engine(rank) for rank in range(8)]
    after = [replace(each, busy_s=4.5) for each in engines]
    after[5] = replace(after[5], state="lost", reason="killed by signal 9")
    told = told_after(a_topology(*engines), a_topology(*after, sequence=2))
    lost = {"state": "lost", "reason": "killed by signal 9"}
    hosts = {"length": 1, "0": {"engines": {"length": 8, "5": lost}}}
    assert told.change == {"sequence": 2, "hosts": hosts}


def test_an_age_that_did_not_grow_by_itself_is_told():
    late = told_after(a_topology(an_engine()), a_topology(an_engine(busy_s=0.1, beat_age_s=4.0)))
    changed = {"busy_s": 0.1, "beat_age_s": 4.0}
    assert late.change["hosts"]["0"]["engines"]["0"] == changed


def test_a_rank_that_comes_and_goes_in_a_collective_is_told():
    inside = CollectiveView(3, "all_reduce", 1.0, is_running=True)
    page, teller = ToldPage(), Teller()
    for now_s, collective in enumerate((None, inside, replace(inside, sequence=4), None)):
        topology = a_topology(an_engine(collective=collective, busy_s=4.0 + now_s))
        page.take(teller.tell(topology, float(now_s)))
        assert_same(page.state, topology)


def test_what_is_no_number_is_no_problem():
    nan = math.nan
    engine = an_engine(cpu_percent=nan, beat_age_s=nan, busy_s=math.inf)
    topology = a_topology(engine, gpus=(GpuView(index=0, power_w=nan),), sampled_s=nan)
    teller = Teller()
    for now_s in range(3):
        msgspec.json.encode(teller.tell(topology, float(now_s)))


def test_a_page_that_has_missed_a_change_shows_nothing_until_it_is_told_the_whole():
    page, teller = ToldPage(), Teller()
    page.take(teller.tell(a_topology(), 1.0))
    teller.tell(a_topology(an_engine(state="idle"), sequence=2), 2.0)
    page.take(teller.tell(a_topology(an_engine(state="lost"), sequence=3), 3.0))
    assert page.state is None
    page.take(teller.whole())
    assert page.state["hosts"][0]["engines"][0]["state"] == "lost"
    page.take(teller.tell(a_topology(an_engine(state="idle"), sequence=4), 4.0))
    assert page.state["sequence"] == 4


def test_a_whole_from_a_topology_is_followed_by_the_same_changes():
    page, teller = ToldPage(), Teller()
    teller.tell(a_topology(), 1.0)
    page.take(tell_whole(a_topology(), 1))
    page.take(teller.tell(a_topology(an_engine(state="lost")), 1.5))
    assert page.state["hosts"][0]["engines"][0]["state"] == "lost"


def a_walk(seed):
    """Go through topologies of a cluster whose hosts, ranks, GPUs and calls come and go."""
    chance = random.Random(seed)
    states = ("idle", "busy", "collective", "hung", "lost")
    for sequence in range(60):
        hosts = []
        for number in range(chance.choice((1, 2, 3))):
            inside = CollectiveView(chance.randrange(3), "barrier", 0.5, chance.random() < 0.5)
            engines = [
                an_engine(
                    rank,
                    state=chance.choice(states),
                    cell=chance.choice(("", "In[3]")),
                    collective=chance.choice((None, inside)),
                    rss_bytes=chance.randrange(1 << 40),
                    devices=chance.choice(((), (rank,))),
                    beat_age_s=chance.choice((0.2, 0.7, 4.0, 9.0)),
                )
                for rank in range(chance.choice((0, 2, 3)))
            ]
            gpus = [
                GpuView(index=i, xid=chance.choice((0, 79))) for i in range(chance.randrange(3))
            ]
            host = HostView(name=f"n{number}", engines=tuple(engines), gpus=tuple(gpus))
            hosts.append(host)
        yield Topology(cluster="x", sequence=sequence, hosts=tuple(hosts))


@pytest.mark.parametrize("seed", range(20))
def test_whatever_changes_a_page_shows_what_is(seed):
    page, teller, now_s = ToldPage(), Teller(), 0.0
    for topology in a_walk(seed):
        now_s += 0.25
        page.take(teller.tell(topology, now_s))
        assert_same(page.state, topology)
    assert page.wholes == 1


def test_4096_ranks_that_work_are_a_fortieth_of_the_whole():
    def at(tick):
        hosts = tuple(
            HostView(
                name=f"n{host}",
                cpu_percent=40.0 + tick,
                sampled_s=0.1 * tick,
                engines=tuple(
                    an_engine(rank, busy_s=4.0 + tick / 4, beat_age_s=(rank * 0.13 + tick) % 1.1)
                    for rank in range(8)
                ),
            )
            for host in range(512)
        )
        return Topology(cluster="x", sequence=tick, hosts=hosts)

    teller = Teller()
    teller.tell(at(0), 0.0)
    change = len(msgspec.json.encode(teller.tell(at(1), 0.25)))
    whole = len(msgspec.json.encode(at(1)))
    print(f"4,096 ranks: {change:,} bytes of {whole:,}")
    assert change < whole / 40
