import threading
from types import SimpleNamespace

import msgspec
import pytest
from fakes.profiled import sampled
from fakes.recorded import host, rank

from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog
from jupyter_dist.cluster.profiling.collecting import (
    begin_profile,
    check_duration,
    take_profile,
)
from jupyter_dist.errors import UsageError
from jupyter_dist.model.hosts.topology import EngineView
from jupyter_dist.model.ranks.profiles import ProfileBegun
from jupyter_dist.model.ranks.stacks import RankStacks, ThreadStack
from jupyter_dist.protocol.messages import (
    BeginProfile,
    EndProfile,
    NoAnswer,
    RanksAnswered,
    ReadStacks,
)

BEGUN = ProfileBegun(0)


class Line:
    """A line over which each kind of question has its answers, and its problems."""

    def __init__(self, begin, end=None):
        self.lock = threading.RLock()
        self._answers = {BeginProfile: begin, EndProfile: end or ({}, {}), ReadStacks: ({}, {})}
        self.asked, self.is_closed = [], False

    def has(self, kind, answers, problems=None):
        self._answers[kind] = (answers, problems or {})

    def new_request_id(self):
        return "r1"

    def ask(self, request, _answer_type, timeout_s):
        assert timeout_s > request.timeout_s
        self.asked.append(request.about)
        return RanksAnswered("r1", *self._answers[type(request.about)]), []

    def close(self):
        self.is_closed = True


@pytest.fixture
def session():
    log = CollectiveLog((host("a", rank(0), rank(1)),), {}, 2)
    views = [EngineView(rank=number, local_rank=0, state="busy", cell="In[1]") for number in (0, 1)]
    topology = SimpleNamespace(engines=views)
    return SimpleNamespace(name="demo", collectives=lambda **_: log, topology=lambda: topology)


def begin(session, line, kind="sampling"):
    return begin_profile(session, lambda: line, (0, 1), kind)


def test_what_is_begun_is_ended_by_the_same_name_once(session):
    line = Line(({0: BEGUN, 1: BEGUN}, {}), ({0: sampled(), 1: sampled()}, {}))
    with begin(session, line) as profiling:
        pass
    assert profiling.end() is profiling.end()
    first, last = line.asked
    assert first.profile_id == last.profile_id
    assert (sorted(profiling.end().ranks), line.is_closed) == ([0, 1], True)


def test_two_profiles_have_different_names(session):
    lines = [Line(({0: BEGUN}, {})) for _ in range(2)]
    for line in lines:
        begin(session, line)
    assert len({line.asked[0].profile_id for line in lines}) == 2


def test_where_one_rank_refuses_the_others_are_told_to_stop(session):
    line = Line(({0: BEGUN, 1: NoAnswer("another profile of it runs")}, {}))
    with pytest.raises(UsageError, match="rank 1: another profile"):
        begin(session, line)
    assert isinstance(line.asked[-1], EndProfile)
    assert line.is_closed


def test_nothing_begins_where_no_rank_answers(session):
    with pytest.raises(UsageError, match="lost"):
        begin(session, Line(({}, {0: "it is lost", 1: "it is lost"})))


SEEN = RankStacks("faulthandler", (ThreadStack("MainThread", True),))


@pytest.mark.parametrize("seen", [SEEN, RankStacks("none", note="it has no core")])
@pytest.mark.parametrize(
    ("change", "known"),
    [({}, [0, 1]), ({"cell": "", "state": "idle"}, [0]), ({"state": "lost"}, [0])],
    ids=["in a cell", "idle", "lost"],
)
def test_a_rank_that_is_silent_in_a_cell_is_looked_at_from_outside(session, seen, change, known):
    views = session.topology().engines
    views[1] = msgspec.structs.replace(views[1], **change)
    line = Line(({0: BEGUN}, {1: "late"}), ({0: sampled()}, {1: "late"}))
    line.has(ReadStacks, {1: seen})
    profile = begin(session, line).end()
    assert list(profile.problems) == [1]
    assert sorted(profile.times) == known


def test_a_line_is_closed_also_where_the_end_fails(session):
    line = Line(({0: BEGUN}, {}), ({0: sampled()}, {}))
    session.collectives = lambda **_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        begin(session, line).end()
    assert line.is_closed


def test_an_unknown_kind_asks_nothing(session):
    line = Line(({}, {}))
    with pytest.raises(UsageError, match="nonsense"):
        begin(session, line, "nonsense")
    assert line.asked == []


def test_ranks_are_asked_for_native_code_and_have_time_to_read_its_symbols(session):
    line = Line(({0: BEGUN}, {}))
    begin_profile(session, lambda: line, (0,), "memory", native=True)
    assert line.asked[0].is_native
    with pytest.raises(UsageError, match="sampling, memory"):
        begin_profile(session, lambda: line, (0,), "torch", native=True)


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf"), 3601])
def test_a_time_that_no_profile_can_take_is_refused(seconds):
    with pytest.raises(UsageError, match="3600"):
        check_duration(seconds)


def test_ranks_end_it_on_their_own_soon_after_its_time(session):
    line = Line(({0: BEGUN}, {}), ({0: sampled()}, {}))
    profile = take_profile(session, lambda: line, (0,), "sampling", 0.01)
    assert list(profile.ranks) == [0]
    assert line.asked[0].most_s < 30
