import gzip
import json

import pytest
from fakes.profiled import every, line, sampled
from fakes.recorded import call, host, rank

from jupyter_dist.cluster.collectives.recorded_calls import CollectiveLog
from jupyter_dist.cluster.profiling.profile import Gathered, Profile
from jupyter_dist.cluster.profiling.report import report_profile
from jupyter_dist.errors import UsageError
from jupyter_dist.model.ranks.profiles import RankProfile
from jupyter_dist.model.ranks.stacks import RankStacks, ThreadStack

QUICK, SLOW, REDUCE = line(2), line(3, code="sleep(1)"), line(4)
CALLS = (rank(0, call("barrier", 1, 20, 91)), rank(1, call("barrier", 1, 90, 91)))
PROFILES = {
    0: sampled(*every(10, QUICK, until_ms=20), *[(ms, REDUCE) for ms in range(30, 101, 10)]),
    1: sampled(*every(10, SLOW, until_ms=90), (100, REDUCE)),
}


def profile_of(ranks=None, calls=CALLS, *, ahead_ms=0.0, **more):
    hosts = (host("a", calls[0]), host("b", calls[1], ahead_ms=ahead_ms))
    log = CollectiveLog(hosts, {}, 2)
    gathered = {"kind": "sampling", "problems": {}, **more}
    return Profile("demo", Gathered(ranks=PROFILES if ranks is None else ranks, **gathered), log)


@pytest.mark.parametrize("ahead_ms", [0.0, 5_000.0])
def test_the_slow_rank_and_its_line_are_found_whatever_the_clock_of_its_host(ahead_ms):
    found = profile_of(ahead_ms=ahead_ms).slowness
    assert (found.ranks, found.place) == ((1,), SLOW)


def test_a_rank_that_was_only_seen_from_outside_may_be_the_slow_one():
    stack = RankStacks("faulthandler", threads=(ThreadStack("MainThread", True, (SLOW,)),))
    found = profile_of({0: PROFILES[0]}, problems={1: "held"}, glimpses={1: stack})
    assert (found.slowness.ranks, found.slowness.place) == ((1,), SLOW)
    assert found.notes


def test_a_rank_that_could_not_be_seen_is_slow_where_others_wait_for_it():
    unseen = RankStacks("none", note="its process waits for a core")
    found = profile_of({0: PROFILES[0]}, problems={1: "late"}, glimpses={1: unseen})
    assert (found.slowness.ranks, found.slowness.place) == ((1,), None)
    assert any("waits for a core" in note for note in found.notes)
    assert report_profile(found).slow_ranks == (1,)


def test_a_rank_of_a_host_whose_records_cannot_be_read_is_left_out_and_named():
    log = CollectiveLog((host("a", CALLS[0]),), {"b": "gone"}, 2)
    found = Profile("demo", Gathered("sampling", PROFILES, {}), log)
    assert (list(found.ranks), list(found.problems)) == ([0], [1])


def test_nothing_at_all_is_no_error():
    found = profile_of({}, problems={0: "lost", 1: "lost"})
    assert found.slowness.ranks == ()
    assert report_profile(found).seconds == 0


def events_of(path):
    return json.loads(path.read_bytes())["traceEvents"]


def test_the_trace_has_ranks_side_by_side_and_their_collectives_as_one_lane(tmp_path):
    path = tmp_path / "trace.json"
    profile_of().write_trace(path)
    events = events_of(path)
    common = [each for each in events if each["ph"] == "X" and each.get("cat") == "collectives"]
    assert ("barrier", 70.0) in [(each["name"], each["args"].get("waited, ms")) for each in common]
    lanes = {(each["pid"], each["tid"]) for each in events if each.get("cat") == "sample"}
    assert len(lanes) == 2


def test_samples_that_see_the_same_are_one_slice(tmp_path):
    path = tmp_path / "trace.json"
    profile_of().write_trace(path)
    (slow,) = [each for each in events_of(path) if each["name"] == SLOW.site]
    assert slow["dur"] == pytest.approx(90_000, abs=1)


def test_traces_of_frameworks_are_moved_to_the_common_clock(tmp_path):
    names = {"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "python"}}
    event = {"ph": "X", "name": "mm", "pid": 9, "tid": 1, "ts": 30_000, "dur": 5}
    trace = gzip.compress(json.dumps([names, event]).encode())
    ranks = {number: RankProfile("torch", 0, 10**8, trace=trace) for number in range(2)}
    path = tmp_path / "trace.json"
    profile_of(ranks, kind="torch").write_trace(path)
    events = events_of(path)
    found = [(each["ts"], each["pid"]) for each in events if each["name"] == "mm"]
    assert [time for time, _ in found] == [30_000, 30_000]
    assert len({process for _, process in found}) == 2
    told = {each["args"]["name"] for each in events if each["name"] == "process_name"}
    assert {"rank 0: python", "rank 1: python"} <= told


def test_speedscope_has_a_profile_for_each_rank_and_weights_that_add_up(tmp_path):
    path = tmp_path / "p.json"
    profile_of().write_speedscope(path)
    found = json.loads(path.read_bytes())
    assert [each["name"] for each in found["profiles"]] == ["rank 0", "rank 1"]
    for each in found["profiles"]:
        assert len(each["samples"]) == len(each["weights"])
        assert sum(each["weights"]) == pytest.approx(0.1)
    count = len(found["shared"]["frames"])
    assert all(at < count for each in found["profiles"] for one in each["samples"] for at in one)
    profile_of().write_speedscope(path)  # over one of ours


def test_a_file_of_someone_else_is_not_overwritten(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text("{}")
    with pytest.raises(UsageError, match=r"mine\.json"):
        profile_of().write_speedscope(path)
    with pytest.raises(UsageError, match="sampling"):
        profile_of({}, kind="memory").write_speedscope(path)
    profile_of().write_speedscope(path, force=True)
