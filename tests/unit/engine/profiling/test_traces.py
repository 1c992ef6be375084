import gzip
import json

from jupyter_dist.engine.profiling import traces
from jupyter_dist.engine.profiling.traces import MARK, _read_trace

SPAN = (1_000_000, 9_000_000)


def event(name, ts, dur=1.0):
    return {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur}


def read(*events, marks_ns=((1_000_000, 3_000_000),)):
    text = json.dumps({"traceEvents": events}).encode()
    found = _read_trace("torch", text, SPAN, list(marks_ns))
    return found, json.loads(gzip.decompress(found.trace))


def test_times_are_moved_by_the_mark_whose_both_times_are_known():
    found, (own,) = read(event(MARK, 500.0), event("mm", 700.0))
    assert own["ts"] == 2000.0 + 200.0
    assert not found.note


def test_without_a_mark_the_trace_begins_with_the_profile_and_that_is_said():
    found, (own,) = read(event("mm", 700.0))
    assert own["ts"] == 1000.0
    assert found.note


def test_names_are_kept_and_of_too_many_events_the_longest(monkeypatch):
    monkeypatch.setattr(traces, "MOST_EVENTS", 2)
    name = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "host"}}
    many = [event(f"e{number}", number, dur=number) for number in range(1, 6)]
    found, events = read(name, event(MARK, 0.0), *many)
    assert [own["name"] for own in events] == ["process_name", "e5", "e4"]
    assert "3 " in found.note


def test_a_trace_of_nothing_is_no_error():
    _, events = read()
    assert events == []


def test_of_several_marks_the_one_counts_that_was_set_fastest():
    marks_ns = [(0, 9_000_000), (9_000_000, 9_002_000), (9_002_000, 20_000_000)]
    marks = [event(MARK, ts) for ts in (10.0, 4000.0, 4002.0)]
    _, (own,) = read(*marks, event("mm", 5000.0), marks_ns=marks_ns)
    assert own["ts"] == 9001.0 + 1000.0
