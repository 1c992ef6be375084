import pytest
from fakes.recorded import call, cell, host, rank

from jupyter_dist.cluster.collectives.timeline import MADE_BY, Timeline

LAST, ABSENT = "last to come", "did not come"
"""What a trace calls the ranks that others wait for."""


def timeline_of(*hosts, world_size=2, problems=None):
    return Timeline("demo", hosts, problems or {}, world_size)


def slices(timeline, **wanted):
    """Slices as (name, start, end) in microseconds; a wait is called by those waited for."""
    return [
        (
            event["name"].removeprefix("wait for "),
            event["ts"],
            round(event["ts"] + event["dur"], 3),
        )
        for event in timeline.events()
        if event["ph"] == "X" and all(event[key] == value for key, value in wanted.items())
    ]


def arguments(timeline, name, tid=0):
    return [
        event["args"]
        for event in timeline.events()
        if (event["name"], event["tid"]) == (name, tid) and event["ph"] == "X"
    ]


def names(timeline, what):
    return [
        (event["pid"], event["tid"], event["args"]["name"])
        for event in timeline.events()
        if event["name"] == what
    ]


def test_hosts_are_processes_and_ranks_are_threads():
    hosts = host("a", rank(0), rank(1)), host("b", rank(2))
    timeline = timeline_of(*hosts, world_size=3)
    assert names(timeline, "process_name") == [(1, 0, "host a"), (2, 0, "host b")]
    ranks = [(1, 0, "rank 0"), (1, 1, "rank 1"), (2, 2, "rank 2")]
    assert names(timeline, "thread_name") == ranks


def test_cells_are_slices_and_time_begins_with_the_first():
    cells = [cell(1, 100, 200), cell(2, 300, 350)]
    timeline = timeline_of(host("a", rank(0, cells=cells)), world_size=1)
    assert slices(timeline, cat="cell") == [("In[1]", 0, 100_000), ("In[2]", 200_000, 250_000)]


def test_a_collective_is_divided_into_the_wait_for_the_last_and_the_work():
    hosts = host("a", rank(0, call("barrier", 1, 10, 50)), rank(1, call("barrier", 1, 40, 51)))
    timeline = timeline_of(hosts)
    assert slices(timeline, tid=0)[1:] == [
        ("barrier", 10_000, 50_000),
        ("rank 1", 10_000, 39_999.999),
        ("work", 40_000, 50_000),
    ]
    assert slices(timeline, tid=1)[1:] == [("barrier", 40_000, 51_000), ("work", 40_000, 51_000)]
    assert arguments(timeline, "barrier")[0][LAST] == "rank 1"


def test_slices_lie_within_those_that_they_belong_to():
    hosts = host(
        "a",
        rank(0, call("barrier", 1, 10.0001, 50.0003), cells=[cell(1, 10, 50.001)]),
        rank(1, call("barrier", 1, 33.3333, 51.5)),
    )
    outer, inner, wait, work = slices(timeline_of(hosts), tid=0)
    assert outer[1] <= inner[1] <= wait[1] < wait[2] < work[1] < work[2] <= inner[2] <= outer[2]


def test_a_collective_says_what_it_is_about():
    record = call("all_reduce", 3, 1, 2, group="0,2~1", site="train.py:3 < In[1]:2")
    timeline = timeline_of(host("a", rank(0, record)), world_size=1)
    (facts,) = arguments(timeline, "all_reduce")
    assert facts == {
        "call": "all_reduce(float32[4], sum)",
        "number": 3,
        "site": "train.py:3 < In[1]:2",
        "bytes": 16,
        "dtype": "float32",
        "shape": "4",
        "group": "0,2~1",
    }


def test_who_ended_before_the_last_came_waited_all_the_time():
    hosts = host("a", rank(0, call("broadcast", 1, 10, 20)), rank(1, call("broadcast", 1, 90, 95)))
    waits = slices(timeline_of(hosts), tid=0, cat="wait")
    assert waits == [("rank 1", 10_000, 19_999.999)]
    assert slices(timeline_of(hosts), tid=0, cat="work") == []


def test_who_waits_for_ranks_that_have_not_come_waits_until_now():
    timeline = timeline_of(
        host("a", rank(0, call("barrier", 1, 10)), rank(1), rank(2), now_ms=70), world_size=3
    )
    assert slices(timeline, cat="wait") == [("ranks 1-2", 10_000, 69_999.999)]
    (facts,) = arguments(timeline, "barrier")
    assert facts[ABSENT] == "ranks 1-2"
    assert "ended" in facts["outcome"]


def test_a_call_that_is_over_for_others_may_be_forgotten_and_is_not_divided():
    hosts = host(
        "a", rank(0, call("barrier", 1, 1, 2)), rank(1, call("barrier", 2, 5, 6), omitted=1)
    )
    assert slices(timeline_of(hosts), tid=0)[1:] == [("barrier", 1000, 2000)]


def test_a_rank_that_ended_inside_and_a_call_that_failed_are_told():
    lost = rank(0, call("barrier", 1, 10), has_ended=True)
    failed = rank(1, call("barrier", 1, 12, 15, has_failed=True))
    timeline = timeline_of(host("a", lost, failed))
    for name in ("barrier", "In[1]"):
        assert "its rank" in arguments(timeline, name, 0)[0]["outcome"]
    assert arguments(timeline, "barrier", 1)[0]["outcome"] == "failed"


def test_messages_and_objects_are_told_apart():
    calls = [call("send", 1, 1, 2, root=1), call("all_gather_object", 1, 3, 4)]
    timeline = timeline_of(host("a", rank(0, *calls)), world_size=1)
    assert [each[0] for each in slices(timeline, cat="messages")] == ["send"]
    assert [each[0] for each in slices(timeline, cat="objects")] == ["all_gather_object"]
    assert [each[0] for each in slices(timeline, cat="work")] == ["work"]


def test_a_wait_across_hosts_is_measured_with_corrected_clocks():
    ahead = [call("barrier", number, 20 * number + 8, 20 * number + 10) for number in range(1, 6)]
    behind = [call("barrier", number, 20 * number, 20 * number + 10) for number in range(1, 6)]
    timeline = timeline_of(
        host("a", rank(0, *behind), now_ms=500),
        host("b", rank(1, *ahead), now_ms=500, ahead_ms=3333.5),
    )
    waits = slices(timeline, cat="wait")
    assert {name for name, _, _ in waits} == {"rank 1"}
    assert [begin for _, begin, _ in waits] == [20_000 * number for number in range(1, 6)]
    assert {round(end - begin, 3) for _, begin, end in waits} == {7999.999}
    first, second = timeline.metadata()["clocks"].values()
    assert " ms" not in first
    assert " -3333.500 ms, after 5 collectives" in second
    labels = [each["args"] for each in timeline.events() if each["name"] == "process_labels"]
    assert [each["labels"] for each in labels] == [first, second]


def test_calls_of_two_threads_of_a_rank_do_not_overlap_by_half():
    calls = [
        call("barrier", 1, 10, 30, group="0"),
        call("barrier", 2, 20, 40, group="0~2"),
        call("barrier", 3, 35, 60, group="0"),
        call("barrier", 4, 95, 120, group="0"),
    ]
    cells = [cell(1, 0, 100), cell(2, 110, 200)]
    timeline = timeline_of(host("a", rank(0, *calls, cells=cells)), world_size=1)
    barriers = [event for event in timeline.events() if event["name"] == "barrier"]
    threads = {event["args"]["number"]: event["tid"] for event in barriers}
    assert threads[1] == threads[3] == 0
    assert threads[2] == threads[4] != 0
    assert names(timeline, "thread_name")[1][1:] == (threads[2], "rank 0, also")


def test_the_trace_says_where_it_comes_from_and_what_it_lacks():
    hosts = host("a", rank(0, call("barrier", 3, 5, 6), omitted=2), rank(1, problem="no file"))
    timeline = timeline_of(hosts, problems={"b": "gone"})
    facts = timeline.metadata()
    assert next(iter(facts.values())) == MADE_BY
    assert (facts["cluster"], facts["forgotten calls"]) == ("demo", 2)
    assert facts["problems"] == {"b": "gone"}
    assert facts["begins at"].startswith("1970-01-12T13:46:40.000")


def test_what_is_in_it_is_counted():
    cells = [cell(1, 0, 50), cell(2, 60)]
    calls = [call("barrier", number, 5 * number, 5 * number + 1) for number in (1, 2, 3)]
    ranks = [rank(number, *calls, cells=cells, omitted=10) for number in (0, 1)]
    timeline = timeline_of(host("a", *ranks))
    counts = (timeline.rank_count, timeline.cell_count, timeline.call_count)
    assert counts == (2, 2, 6)
    assert timeline.forgotten_count == 20


@pytest.mark.parametrize("hosts", [(), (host("a", rank(0, cells=())),)])
def test_nothing_is_a_trace_too(hosts):
    timeline = timeline_of(*hosts)
    assert slices(timeline) == []
    assert timeline.call_count == 0
    assert timeline.metadata()["cluster"] == "demo"


def test_what_belongs_to_a_framework_lies_in_lanes_of_its_own_undivided():
    programs = [
        call("jit(step)", 1, 10, 30, group="0-1~jax"),
        call("jit(step)", 2, 20, 40, group="0-1~jax"),
        call("barrier", 1, 25, 35),
        call("all_reduce", 1, 50, 55, group="0-1~torch"),
    ]
    timeline = timeline_of(host("a", rank(0, *programs), rank(1, *programs)))
    lanes = {tid: name for _, tid, name in names(timeline, "thread_name") if tid % 2 == 0}
    own = [name.removeprefix("rank 0") for name in lanes.values()]
    assert own == ["", ", JAX", ", JAX, also", ", torch"]
    found = [
        (event["name"], lanes[event["tid"]].removeprefix("rank 0"))
        for event in timeline.events()
        if event["ph"] == "X" and event["cat"] != "cell" and event["tid"] % 2 == 0
    ]
    programs = [("jit(step)", ", JAX"), ("jit(step)", ", JAX, also")]
    assert found == [*programs, ("barrier", ""), ("work", ""), ("all_reduce", ", torch")]


def test_ranks_are_sorted_with_all_their_lanes():
    calls = [call("jit(step)", 1, 10, 30, group="0-1~jax")]
    timeline = timeline_of(host("a", rank(0, *calls), rank(1, *calls)))
    indices = [each for each in timeline.events() if each["name"] == "thread_sort_index"]
    order = {event["tid"]: event["args"]["sort_index"] for event in indices}
    tids = {name: tid for _, tid, name in names(timeline, "thread_name")}
    in_order = sorted(tids, key=lambda name: order[tids[name]])
    assert in_order == ["rank 0", "rank 0, JAX", "rank 1", "rank 1, JAX"]
