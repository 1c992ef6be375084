import pytest
from fakes.cluster import ended

from jupyter_dist.cluster.cells.followed_cells import Replay
from jupyter_dist.errors import RankRaised, UsageError
from jupyter_dist.options.output_options import OutputStyle
from jupyter_dist.protocol.messages import KeptCell

CODE = "#%%spmd -o x\nloss = train()\nloss"


def cell(label, *, is_running=False, code=CODE, ranks=(0, 1, 2, 3)):
    return KeptCell(f"cell-{label}", f"In[{label}]", code, ranks, 0.0, is_running, 2_500_000)


@pytest.fixture
def cluster(run, world, monkeypatch):
    """A started cluster; `cluster.followed` is what following gives, or raises."""

    def follow(self, watcher, on_cell=None):
        self.calls.append(("follow", watcher))
        if isinstance(self.followed, BaseException):
            raise self.followed
        return self.followed

    def replay(self, label=None):
        self.calls.append(("replay", label))
        found = [each for each in self.kept if label in (None, each.label, each.label[3:-1])]
        return Replay(found[-1], ())

    monkeypatch.setattr(world.kind, "follow", follow, raising=False)
    monkeypatch.setattr(world.kind, "replay", replay, raising=False)
    run("%dist_start")
    world.views.clear()
    return world.clusters["demo"]


def test_a_running_cell_is_followed_to_its_end(run, world, cluster):
    cluster.kept = (cell(2), cell(3, is_running=True, ranks=(0, 2)))
    cluster.followed = ended("ok", "ok")
    result = run("%dist_attach demo")
    assert result.success
    attached, running = result.text.splitlines()
    assert attached.endswith(" demo: ranks 0-3")
    assert running.startswith("In[3] runs since ")
    assert running.endswith(" on ranks 0,2: loss = train()")
    [view] = world.views
    assert not view.asked.pop("axes")
    style = OutputStyle()
    asked = {"world_size": 2, "shown": None, "style": style, "log_hint": "localhost:/logs"}
    assert view.asked == asked
    assert view.finished == [(cluster.followed, None)]
    assert cluster.calls == [("attach", False, False), ("follow", view)]


def test_an_error_of_the_followed_cell_is_the_error_of_this_one(run, world, cluster):
    cluster.kept = (cell(3, is_running=True),)
    cluster.followed = ended("ok", "raised")
    result = run("%dist_attach")
    assert isinstance(result.error_in_exec, RankRaised)
    assert world.views[0].finished == [(cluster.followed, 1)]


def test_without_a_running_cell_the_last_one_is_named(run, world, cluster):
    cluster.kept = (cell(2), cell(3))
    (text,) = run("%dist_attach").text.splitlines()[1:]
    assert "In[3]" in text
    assert "%dist_output" in text
    assert world.views == []


def test_following_can_be_left_out(run, world, cluster):
    cluster.kept = (cell(3, is_running=True),)
    assert run("%dist_attach --no-follow").text.endswith(" demo: ranks 0-3\n")
    assert world.views == []


def test_who_watches_is_told_who_runs_cells(run, cluster):
    cluster.owner = "notebook train.ipynb"
    assert "; notebook train.ipynb " in run("%dist_attach --watch").text
    assert cluster.calls == [("attach", True, False)]
    assert run("%dist_attach demo --take-over").text.endswith(" demo: ranks 0-3\n")
    assert cluster.calls[1:] == [("attach", False, True)]


def test_both_at_once_cannot_be_meant(run, cluster):
    assert isinstance(run("%dist_attach --watch --take-over").error_in_exec, UsageError)
    assert cluster.calls == []


def test_ctrl_c_is_no_error_of_a_watcher_and_gives_others_the_prompt_back(run, world, cluster):
    cluster.kept = (cell(3, is_running=True),)
    cluster.followed = KeyboardInterrupt()
    watching = run("%dist_attach --watch")
    assert watching.success
    assert "%dist_attach demo --watch" in watching.text.splitlines()[-1]
    assert isinstance(run("%dist_attach").error_in_exec, KeyboardInterrupt)
    assert [view.finished for view in world.views] == [[(None,)]] * 2


def test_a_cell_that_ends_at_that_moment_is_read_instead(run, world, cluster):
    cluster.kept = (cell(3, is_running=True, ranks=()),)
    cluster.followed = None
    assert run("%dist_attach").success
    assert cluster.calls[-1] == ("replay", "In[3]")
    assert world.views[0].finished == [(None, None)]


def test_what_the_last_cell_has_said_is_shown_again(run, world, cluster):
    cluster.kept = (cell(2), cell(3, ranks=()))
    result = run("%dist_output")
    assert result.success
    assert result.text.startswith("In[3] began at ")
    assert cluster.calls == [("replay", None)]
    [view] = world.views
    [(shown,)] = view.finished
    assert list(shown) == []


def test_an_earlier_cell_is_named_by_its_number(run, cluster):
    cluster.kept = (cell(2, ranks=()), cell(3, ranks=()))
    assert run("%dist_output 2").text.startswith("In[2] ")


def test_the_outputs_of_some_ranks_can_be_looked_at_alone(run, world, cluster):
    cluster.kept = (cell(3, ranks=(0, 2)),)
    run("%dist_output --ranks 2")
    assert world.views[-1].asked["shown"] == (2,)
    text = run("%dist_output --ranks 1").text
    assert all(part in text for part in ("--ranks 1: ", "rank 1.", "In[3]", "ranks 0,2,"))


def test_the_cells_that_are_kept_are_listed(run, cluster):
    assert run("%dist_output --list").text.count("\n") == 1, "there is none"
    cluster.kept = (cell(2), cell(3, is_running=True, code="x" * 80))
    head, first, second = run("%dist_output --list").text.splitlines()
    assert head.split() == ["cell", "began", "ranks", "output", "code"]
    assert first.split()[0] == "In[2]"
    assert first.endswith("  0-3    2.38 MiB           loss = train()")
    assert second.endswith(f"  0-3    2.38 MiB, running  {'x' * 49}…")
