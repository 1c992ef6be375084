"""What cells say, from a cluster that plays them."""

import pytest

from jupyter_dist.cluster.cells.followed_cells import Replay
from jupyter_dist.errors import CellOutOfSight, ClusterGone
from jupyter_dist.protocol.messages import (
    ErrorInfo,
    KeptCell,
    Output,
    RankFinished,
    RankOutput,
)
from jupyter_dist.server.cell_feed import INTERVAL_S, TAIL_LINES, CellFeed, Stage
from jupyter_dist.server.page_messages import CellSeen, Tail

pytestmark = pytest.mark.timeout(60)


def kept(number, is_running=False):
    return KeptCell(f"cell-{number}", f"In[{number}]", "x", (0, 1), 1000.0, is_running=is_running)


class PlayedCluster:
    """Plays one scene at each look: what `outputs` gives, and what following or replaying does."""

    name = "played"

    def __init__(self, *scenes):
        self._scenes = list(scenes)
        self._scene = None
        self.log_dirs = {}

    def await_ready(self):
        self.log_dirs = {"a": "/tmp/logs"}

    def outputs(self):
        if not self._scenes:
            raise ClusterGone(self.name, "the play is over")
        self._scene = self._scenes.pop(0)
        return (self._scene["cell"],)

    def follow(self, watcher, on_cell, *, keeps_output):
        assert not keeps_output, "nobody reads the result, and the cell may run for weeks"
        if self._scene.get("is_lost"):
            raise CellOutOfSight
        if self._scene.get("is_over"):
            return None
        on_cell(self._scene["cell"])
        for act in self._scene["acts"]:
            act(watcher)
        return "result"

    def replay(self):
        return Replay(self._scene["cell"], self._scene["events"], 0)


def say(rank, text):
    return lambda watcher: watcher.on_output([rank], (Output("stdout", text),))


def tick(watcher):
    watcher.on_tick()


def finish(rank, **more):
    return lambda watcher: watcher.on_finished(RankFinished(rank, "ok", 1.0, **more))


class Clock:
    """Time that passes only where a play says so."""

    now_s = 1000.0

    def __call__(self):
        return self.now_s

    def passes(self, seconds):
        """Make an act of it."""

        def act(_watcher):
            self.now_s += seconds

        return act


def play(*scenes, ranks=(), stage=None, clock=None):
    """Play all scenes; gives what was told, or what a stage of the caller's own was told."""
    told = []
    stage = stage or Stage(told.append)
    stage.show_tails(ranks)
    for scene in scenes:
        scene.setdefault("acts", ())
    cluster = PlayedCluster(*scenes)
    real_wait = stage.has_news.wait
    stage.has_news.wait = lambda _timeout: real_wait(0)  # the next scene comes at once
    with pytest.raises(ClusterGone):
        CellFeed(cluster, stage, clock or Clock()).run()
    return told


def test_a_running_cell_is_told_while_it_runs_and_when_it_has_ended():
    acts = [say(0, "hello\n"), tick, say(1, "late\n"), tick, finish(0), finish(1)]
    told = play({"cell": kept(3, is_running=True), "acts": acts})
    assert all(isinstance(each, CellSeen) for each in told)
    running, ended = told
    assert (running.label, running.is_running, running.cluster) == ("In[3]", True, "played")
    assert "hello" in running.html
    assert "late" not in running.html, "no time has passed since"
    assert not ended.is_running
    assert "late" in ended.html


def test_a_picture_comes_half_a_second_after_the_last_one_and_only_if_something_is_new():
    clock = Clock()
    early, due = clock.passes(0.9 * INTERVAL_S), clock.passes(0.11 * INTERVAL_S)
    acts = [say(0, "one\n"), tick, early, say(0, "two\n"), tick, due, tick]
    acts += [clock.passes(60), tick, say(0, "three\n"), tick, finish(0), finish(1)]
    told = play({"cell": kept(3, is_running=True), "acts": acts}, clock=clock)
    pictures = [["one" in m.html, "two" in m.html, "three" in m.html] for m in told[:-1]]
    assert pictures == [[True, False, False], [True, True, False], [True, True, True]]


def test_a_picture_that_takes_long_to_draw_comes_less_often():
    clock, told = Clock(), []

    def tell(message):
        told.append((clock.now_s, "two" in message.html))
        clock.now_s += 0.2  # so long it takes; a tenth of the time may go into it

    acts = [say(0, "one\n"), tick, say(0, "two\n"), clock.passes(1.7), tick]
    acts += [clock.passes(0.2), tick, finish(0), finish(1)]
    play({"cell": kept(3, is_running=True), "acts": acts}, stage=Stage(tell), clock=clock)
    assert [is_new for _, is_new in told] == [False, True, True]
    assert [at_s - 1000 for at_s, _ in told][:2] == pytest.approx([0.0, 2.1])


def test_the_last_cell_is_told_once():
    events = (RankOutput((0,), (Output("stdout", "said\n"),)), RankFinished(0, "ok", 1.0))
    events += (RankFinished(1, "ok", 1.0),)
    scene = {"cell": kept(2), "events": events}
    told = play(scene, dict(scene), dict(scene))
    assert [("said" in each.html, each.is_running) for each in told] == [(True, False)]


def test_a_cell_out_of_sight_is_followed_again_from_its_beginning():
    lost = {"cell": kept(1, is_running=True), "is_lost": True}
    again = {"cell": kept(1, is_running=True), "acts": [say(0, "x\n"), tick, finish(0), finish(1)]}
    told = play(lost, again)
    assert [each.is_running for each in told] == [True, False]


def test_one_that_ended_before_it_could_be_followed_is_read_again():
    events = (RankFinished(0, "ok", 1.0), RankFinished(1, "ok", 1.0))
    told = play(
        {"cell": kept(1, is_running=True), "is_over": True}, {"cell": kept(1), "events": events}
    )
    assert [(each.label, each.is_running) for each in told] == [("In[1]", False)]


def test_tails_are_plain_text_of_those_ranks_and_told_when_they_change():
    acts = [say(0, "\x1b[31mred\x1b[0m\nhalf"), say(1, "other\n"), tick, tick, finish(0), finish(1)]
    told = play({"cell": kept(1, is_running=True), "acts": acts}, ranks={0})
    tails = [each for each in told if isinstance(each, Tail)]
    assert [(tail.rank, tail.text) for tail in tails] == [(0, "red\nhalf")]


def test_a_tail_that_was_not_wanted_for_a_moment_is_told_again():
    told = []
    stage = Stage(told.append)

    def look_away_and_back(_watcher):
        stage.show_tails({1})
        stage.show_tails({0})

    acts = [say(0, "all said\n"), tick, look_away_and_back, tick, tick]
    scene = {"cell": kept(1, is_running=True), "acts": [*acts, finish(0), finish(1)]}
    play(scene, ranks={0}, stage=stage)
    tails = [(each.rank, each.text) for each in told if isinstance(each, Tail)]
    assert tails == [(0, "all said")] * 2


def test_a_tail_is_bounded_and_ends_with_the_traceback():
    error = ErrorInfo("ValueError", "no", ("Traceback", "ValueError: no"))
    lines = "".join(f"line {number}\n" for number in range(1000))
    ends = [finish(0, error=error), finish(1)]
    acts = [say(0, lines), *ends]
    told = play({"cell": kept(1, is_running=True), "acts": acts}, ranks={0})
    (tail,) = [each for each in told if isinstance(each, Tail)]
    assert tail.text.splitlines()[-3:] == ["line 999", "Traceback", "ValueError: no"]
    assert len(tail.text.splitlines()) == TAIL_LINES
    assert len([each for each in told if isinstance(each, CellSeen)]) == 1


def test_nobody_looking_any_more_ends_the_following_at_once():
    told = []
    stage = Stage(told.append)

    def leave(_watcher):
        stage.is_over.set()

    scene = {
        "cell": kept(1, is_running=True),
        "acts": [say(0, "x\n"), leave, tick, say(0, "never")],
    }
    CellFeed(PlayedCluster(scene), stage).run()
    assert told == []
