import json

from jupyter_dist.cli.jobs.json_events import JsonEvents
from jupyter_dist.protocol.messages import ErrorInfo, Output, RankFinished
from jupyter_dist.text.lists import Passing


def test_each_event_is_a_line_of_its_own_with_all_that_happened():
    lines = []
    events = JsonEvents(lines.append, "night", (0, 1))
    events.on_output(
        (0, 1), [Output("stdout", "a\nb\n"), Output("value", data={"text/plain": "3"})]
    )
    events.on_output((1,), [Output("clear_output")])
    events.on_note(Passing(""))
    events.on_note(Passing("rank 0 waits"))
    events.on_finished(RankFinished(0, "ok", 0.5))
    events.on_finished(RankFinished(1, "raised", 0.5, error=ErrorInfo("KeyError", "k", ())))
    events.on_tick()
    events.finish(None)
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
    assert [json.loads(line) for line in lines] == [
        {"event": "began", "cluster": "night", "ranks": [0, 1]},
        {"event": "output", "ranks": [0, 1], "kind": "stdout", "text": "a\nb\n"},
        {
            "event": "output",
            "ranks": [0, 1],
            "kind": "value",
            "data": {"text/plain": "3"},
            "display_id": "",
        },
        {"event": "note", "text": "rank 0 waits", "is_passing": True},
        {"event": "rank_ended", "rank": 0, "status": "ok", "seconds": 0.5},
        {
            "event": "rank_ended",
            "rank": 1,
            "status": "raised",
            "seconds": 0.5,
            "error": "KeyError",
            "message": "k",
        },
    ]
