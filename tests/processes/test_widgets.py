"""Comms of ranks, from the real ipywidgets on real ranks to who shows them, and back."""

import json
import queue
from types import SimpleNamespace

import pytest

from jupyter_dist.protocol.messages import CommAnswered, CommArrived, SendComm

from .leftovers import wait_until

SLIDER = """import ipywidgets
slider = ipywidgets.IntSlider(value=3)
seen = []
slider.observe(lambda change: (seen.append(change["new"]), print("now", change["new"])), "value")
model_id = slider.model_id"""
PATIENCE_S = 20


class Page:
    """Shows widgets of a cluster: watches its cells, and keeps what comms say."""

    shows_widgets = True

    def __init__(self, cluster):
        self.said = queue.SimpleQueue()
        self.ends = queue.SimpleQueue()
        self.line = cluster.follow_widgets(self)

    def on_output(self, ranks, outputs):
        pass

    def on_finished(self, result):
        pass

    def on_note(self, text):
        pass

    def on_tick(self):
        pass

    def on_comm(self, message, buffers):
        self.said.put((message, [bytes(buffer) for buffer in buffers]))

    def on_answer(self, message):
        self.said.put((message, []))

    def on_ended(self, engine, reason):
        self.ends.put((engine, reason))

    def hear(self, comm_id, kind=CommArrived):
        """Give the next thing that this comm says, with its content as JSON."""
        while True:
            message, buffers = self.said.get(timeout=PATIENCE_S)
            if message.comm_id == comm_id and isinstance(message, kind):
                content = json.loads(getattr(message, "content", b"{}"))
                return SimpleNamespace(message=message, content=content, buffers=buffers)

    def say(self, engine, comm_id, number, data, buffers=()):
        content = json.dumps({"data": data}).encode()
        self.line.send(SendComm("", engine, comm_id, number, "msg", content), buffers)


@pytest.fixture
def two(start):
    return start("localhost:2")


@pytest.fixture
def page(two):
    return Page(two)


def open_slider(cluster, page):
    cluster.run(SLIDER, watcher=page).raise_first()
    comm_id = cluster.pull("model_id", [1])[1]
    return comm_id, page.hear(comm_id).message.engine


def test_a_change_in_a_page_is_made_on_the_rank_between_cells(two, page):
    comm_id, engine = open_slider(two, page)
    page.say(engine, comm_id, 1, {"method": "update", "state": {"value": 8}})
    answer = page.hear(comm_id, CommAnswered).message
    assert [output.text for output in answer.outputs] == ["now 8\n"]
    assert two.pull("(slider.value, seen)") == {0: (3, []), 1: (8, [8])}
    two.run("slider.value = 9", watcher=page)
    assert page.hear(comm_id).content["data"]["state"] == {"value": 9}


def test_what_ranks_are_asked_after_an_event_comes_after_it(two, page):
    comm_id, engine = open_slider(two, page)
    for number in range(1, 41):
        page.say(engine, comm_id, number, {"method": "update", "state": {"value": number}})
        if number % 2:
            assert two.run("slider.value", [1]).rank(1).value_repr == str(number)
        else:
            assert two.pull("slider.value", [1]) == {1: number}


def test_events_wait_for_a_cell_and_binary_data_comes_whole(two, page, tmp_path):
    comm_id, engine = open_slider(two, page)
    gate = tmp_path / "go_on"
    code = f"""got = []
slider.on_msg(lambda widget, content, buffers: got.append((content, bytes(buffers[0]))))
slider.send("begun", [b"abc"])
import os, time
while not os.path.exists({str(gate)!r}): time.sleep(0.01)
during = list(got)"""
    running = two.run_in_background(code, [1], watcher=BackgroundPage(page))
    begun = page.hear(comm_id)
    assert (begun.content["data"]["content"], begun.buffers) == ("begun", [b"abc"])
    page.say(engine, comm_id, 1, {"method": "custom", "content": 1}, [b"x" * 100_000])
    page.say(engine, comm_id, 2, {"method": "custom", "content": 2}, [b""])
    gate.touch()
    running.wait(PATIENCE_S)
    while page.hear(comm_id, CommAnswered).message.number < 2:
        continue
    assert two.pull("during, got", [1])[1] == ([], [(1, b"x" * 100_000), (2, b"")])


class BackgroundPage:
    """A page that is told of the end, too."""

    shows_widgets = True

    def __init__(self, page):
        self.on_output, self.on_finished = page.on_output, page.on_finished
        self.on_note, self.on_tick = page.on_note, page.on_tick

    def finish(self, result):
        pass

    def show_again(self):
        pass


def test_programs_that_show_no_widgets_are_sent_nothing(two, page):
    two.run(SLIDER).raise_first()
    two.run("slider.value = 4").raise_first()
    comm_id, _ = open_slider(two, page)
    assert page.said.empty() or page.said.get()[0].comm_id != comm_id
    assert two.run("with ipywidgets.Output(): print('mine')")[0].stdout == "mine\n"


def test_an_interrupt_ends_a_callback_that_takes_long(two, page):
    comm_id, engine = open_slider(two, page)
    two.run("slider.observe(lambda _: __import__('time').sleep(600), 'value')", watcher=page)
    page.say(engine, comm_id, 1, {"method": "update", "state": {"value": 5}})

    def is_busy():
        return two.interrupt([1]) == (1,)

    wait_until(is_busy, PATIENCE_S, "the callback is interrupted")
    answer = page.hear(comm_id, CommAnswered).message
    assert "KeyboardInterrupt" in answer.outputs[-1].text
    assert two.run("rank")[1].value_repr == "1"


def test_who_takes_the_cluster_over_gets_its_widgets_and_the_other_hears_so(two, page):
    open_slider(two, page)
    other = Page(two)
    engine, reason = page.ends.get(timeout=PATIENCE_S)
    assert engine == ""
    assert "another notebook" in reason
    page.line.join(PATIENCE_S)
    assert not page.line.is_alive()
    open_slider(two, other)


def test_the_end_of_a_rank_and_of_the_cluster_is_told_and_nothing_is_left(two, page):
    _, engine = open_slider(two, page)
    two.run("import os; os.kill(os.getpid(), 9)", [1], watcher=page)
    ended, reason = page.ends.get(timeout=PATIENCE_S)
    assert ended == engine
    assert reason.startswith("rank 1 is lost: its process was killed")
    two.stop()
    page.line.join(PATIENCE_S)
    assert not page.line.is_alive()
    assert page.ends.get(timeout=PATIENCE_S)[0] == ""
