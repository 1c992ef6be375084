"""Events of a notebook that runs as a job, on their way to the command."""

import msgspec
import pytest

from jupyter_dist.cluster.jobs.job_events import (
    NoteTold,
    SpmdBegan,
    SpmdEnded,
    read_event,
    write_event,
)
from jupyter_dist.options.output_options import OutputStyle
from jupyter_dist.protocol.messages import ErrorInfo, Output, RankFinished, RankOutput

OUTPUTS = (Output("stdout", "x\n"), Output("value", data={"text/plain": "1"}))


@pytest.mark.parametrize(
    "event",
    [
        SpmdBegan("demo", (0, 1), None, OutputStyle(quiet=True)),
        RankOutput((0, 1), OUTPUTS),
        RankFinished(1, "raised", 0.5, error=ErrorInfo("ValueError", "bad"), report=b"\xff"),
        NoteTold("rank 0 waits", is_passing=True),
        SpmdEnded(137, "rank 0 is lost", is_lost=True),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_comes_as_it_went(event):
    assert read_event(write_event(event)) == event


def test_what_json_does_not_have_comes_as_text():
    event = RankOutput((0,), (Output("display", data={"x": {1, 2}.__class__}),))
    assert read_event(write_event(event)).outputs[0].data == {"x": "<class 'set'>"}


def test_an_event_of_another_release_is_refused():
    with pytest.raises(msgspec.ValidationError):
        read_event('{"type": "Other"}')
