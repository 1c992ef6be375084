"""Each launch of a program that spans ranks: counted, refused, broken off, explained."""

import queue
from types import SimpleNamespace

import numpy as np
import pytest
from fakes.jax_launching import ADD, FakeOutput, put_in_place
from fakes.surroundings import FakeSurroundings

from jupyter_dist.errors import CollectiveMismatch, FrameworkError, PeerFailed, UsageError
from jupyter_dist.frameworks.jax.launches import launches as module
from jupyter_dist.frameworks.jax.launches import refusals
from jupyter_dist.frameworks.jax.launches.launches import NEWS_S, Launches, find_broken, shorten
from jupyter_dist.model.ranks.user_errors import error_text

X = np.zeros((8, 4), np.float32)
BROKEN = ValueError("UNKNOWN: Gloo all-reduce failed: Connection closed by peer")


class Scene:
    """A rank of two with JAX formed, and its clock."""

    def __init__(self, monkeypatch, world_size=2):
        self.now_s = 100.0
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(module.time, "sleep", self.pass_time)
        self.released = []
        monkeypatch.setattr(module, "release_members", lambda: self.released.append(1))
        self.ended_sends = queue.SimpleQueue()
        monkeypatch.setattr(module, "end_lost_sends", self.ended_sends.put)
        self.context = FakeSurroundings(world_size=world_size)
        self.launches = Launches(self.context, lambda: self.why_gone)
        self.program, self.pjit = put_in_place(monkeypatch, self.launches)
        self.launches.begin_generation(range(world_size))
        self.torn = 0
        self.why_gone = ""
        self.later = lambda: None
        monkeypatch.setattr(self.launches.sockets, "shut_down", self._tear)

    def pass_time(self, seconds):
        self.now_s += seconds
        self.later()

    def _tear(self):
        self.torn += 1

    def run(self, outputs=(), text=None):
        options = {} if text is None else {"text": text}
        return self.program(lambda *_args: list(outputs), **options)(X)


@pytest.fixture
def scene(monkeypatch):
    return Scene(monkeypatch)


def test_a_launch_is_counted_and_recorded_until_its_output_is_ready(scene):
    small, large = FakeOutput(4, is_ready=False), FakeOutput(400, is_ready=False)
    assert scene.run([large, small]) == [large, small]
    assert scene.launches.count == 1
    assert scene.context.calls == [("jit(step)", 1, "float32", "8", 32, None)]
    scene.launches.look()
    assert scene.context.calls[0][-1] is None
    small.become_ready()
    scene.launches.look()
    assert scene.context.calls[0][-1] is True


def test_an_output_that_was_donated_counts_as_done(scene):
    output = FakeOutput(is_ready=False)
    scene.run([output])
    output.delete()
    scene.launches.settle()
    assert scene.context.calls[0][-1] is True
    assert not scene.launches.is_broken


def test_programs_of_one_process_and_those_without_collectives_are_left_alone(scene):
    local = scene.program(lambda *_args: ["local"], processes=(0,))
    scene.launches.break_off(1, "raised ValueError")
    assert local(X) == ["local"]
    assert scene.run(["added"], text=ADD) == ["added"]
    assert scene.launches.count == 0
    assert not scene.context.calls


def test_only_programs_of_one_process_stay_in_the_fast_path_of_jax(scene):
    wide = SimpleNamespace(unsafe_call=scene.program(list))
    local = SimpleNamespace(unsafe_call=scene.program(list, processes=(0,)))
    assert scene.pjit._get_fastpath_data(wide) is None
    assert scene.pjit._get_fastpath_data(local) == f"fast {local}"


def test_after_the_first_failure_launches_are_refused_until_the_next_cell(scene):
    scene.launches.break_off(1, "raised ValueError")
    scene.launches.break_off(-1, "the cell was interrupted")
    with pytest.raises(PeerFailed, match="rank 1 raised ValueError"):
        scene.run()
    assert scene.launches.count == 0
    scene.launches.expect_cell()
    scene.run()
    assert scene.launches.count == 1


@pytest.mark.parametrize(("is_in_task", "what"), [(False, "cell"), (True, "task")])
def test_what_runs_on_other_ranks_is_refused_with_their_names(scene, is_in_task, what):
    scene.context.cell_ranks, scene.context.is_in_task = (0,), is_in_task
    with pytest.raises(UsageError, match=rf"ranks 0-1.* {what} .*rank 0 .*rank 1"):
        scene.run()


def test_nothing_is_torn_within_the_grace(scene):
    scene.run([FakeOutput(is_ready=False)])
    scene.launches.break_off(1, "was lost")
    scene.now_s += 0.2
    scene.launches.look()
    assert not scene.torn
    scene.now_s += 0.1
    scene.launches.look()
    assert scene.torn == 1
    assert scene.launches.is_broken


def test_nothing_is_torn_where_nothing_is_under_way(scene):
    scene.run([FakeOutput()])
    scene.launches.break_off(1, "was lost")
    scene.now_s += 10
    scene.launches.look()
    assert not scene.torn
    assert not scene.launches.is_broken


def test_settle_waits_for_outputs_and_raises_who_broke_them(scene):
    output = FakeOutput(is_ready=False)
    scene.run([output])
    scene.launches.break_off(1, "was lost")
    scene.later = lambda: output.become_ready(BROKEN)
    with pytest.raises(PeerFailed, match="rank 1 was lost"):
        scene.launches.settle()
    assert scene.launches.is_broken
    assert scene.context.calls[0][-1] is False


def test_settle_gives_up_what_was_torn_and_does_not_end(scene):
    scene.run([FakeOutput(is_ready=False)])
    scene.launches.break_off(1, "was lost")
    scene.later = scene.launches.look
    with pytest.raises(PeerFailed, match="rank 1 was lost"):
        scene.launches.settle()
    assert scene.now_s - 100 < 3


def break_off_unseen(scene):
    """A launch breaks off, and the cell catches its error."""

    def fail(*_args):
        raise BROKEN

    with pytest.raises(ValueError, match="Gloo") as caught:
        scene.program(fail)(X)
    return caught.value


def test_a_broken_launch_is_explained_when_the_news_come_later(scene):
    error = break_off_unseen(scene)
    scene.later = lambda: scene.launches.break_off(1, "was lost: killed by SIGKILL")
    meant = scene.launches.explain(error)
    assert isinstance(meant, PeerFailed)
    assert meant.__cause__ is error
    assert scene.now_s - 100 < 0.2


def test_a_broken_launch_that_nobody_explains_names_itself_and_its_line(scene):
    meant = scene.launches.explain(break_off_unseen(scene))
    assert isinstance(meant, FrameworkError)
    assert "jit(step)(float32[8,4]) #1 of JAX at In[1]:1 broke off: Gloo all-reduce" in str(meant)
    assert NEWS_S <= scene.now_s - 100 < NEWS_S + 0.2


def test_an_array_of_a_launch_that_broke_in_an_earlier_cell_does_not_break_the_mesh_of_now(scene):
    error = break_off_unseen(scene)
    scene.launches.begin_generation(range(2))
    meant = scene.launches.explain(error)
    assert isinstance(meant, FrameworkError)
    assert "earlier cell" in str(meant)
    assert not scene.launches.is_broken
    assert scene.now_s < 100 + NEWS_S, "nobody is waited for"


def test_a_cell_that_catches_the_error_of_a_broken_launch_does_not_end_well(scene):
    break_off_unseen(scene)
    with pytest.raises(FrameworkError, match=r"#1 .*In\[1\]:1 "):
        scene.launches.settle()


def test_a_broken_launch_whose_error_was_caught_names_the_rank_that_failed(scene):
    break_off_unseen(scene)
    scene.launches.break_off(1, "was lost")
    with pytest.raises(PeerFailed, match="rank 1 was lost"):
        scene.launches.settle()


def test_a_cell_after_a_broken_launch_is_not_to_blame(scene):
    break_off_unseen(scene)
    scene.launches.expect_cell()
    scene.launches.settle()
    assert scene.launches.is_broken


def test_what_ends_well_although_it_was_torn_ends_the_cell_well(scene):
    output = FakeOutput(is_ready=False)
    scene.run([output])
    scene.launches.break_off(1, "raised ValueError")
    scene.now_s += 1
    scene.launches.look()
    output.become_ready()
    scene.launches.settle()
    assert scene.launches.is_broken


def test_the_connections_of_a_mesh_are_torn_before_it_is_given_up(scene):
    scene.launches.sockets._pollers.add(-1)
    scene.launches.end_mesh()
    assert scene.torn == 1
    assert not scene.launches.sockets


def test_what_user_code_makes_of_a_broken_launch_is_explained_too(scene):
    scene.launches.break_off(1, "was lost")
    error = RuntimeError("step 7 failed")
    error.__cause__ = BROKEN
    assert isinstance(scene.launches.explain(error), PeerFailed)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("bug"), PeerFailed(1, "x")])
def test_other_errors_mean_what_they_say(scene, error):
    scene.launches.break_off(1, "was lost")
    assert scene.launches.explain(error) is None
    assert not scene.launches.is_broken


def test_a_cell_that_fails_leaves_nothing_under_way(scene):
    scene.run([FakeOutput(is_ready=False)])
    assert scene.launches.explain(ValueError("bug")) is None
    assert scene.torn
    assert scene.launches.is_broken
    assert scene.context.calls[0][-1] is False


def test_an_interrupt_within_a_launch_tears_what_is_out_of_sight(scene):
    def interrupt(*_args):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scene.program(interrupt)(X)
    assert scene.torn == 1
    with pytest.raises(FrameworkError, match=r"jit\(step\) "):
        scene.run()


def test_a_check_compares_program_and_line_before_the_launch(scene, monkeypatch):
    asked = []

    def differ(purpose, ranks, **options):
        asked.append((purpose, ranks, options["claim"], options["site"]))
        call = f"{options['claim']} at In[1]:1"
        raise CollectiveMismatch(1, call, 0, call, ("rank 1", "ranks 0,2-3"))

    monkeypatch.setattr(scene.context, "compare", differ)
    scene.context.is_checked = True
    with pytest.raises(CollectiveMismatch) as caught:
        scene.run()
    assert asked == [("jax", (0, 1), "jit(step)(float32[8,4]) #1", "In[1]:1")]
    error, call = caught.value, "jit(step)(float32[8,4]) #1 at In[1]:1"
    assert (error.rank, error.call, error.peer_call) == (1, call, call)
    assert error.who == ("rank 1", "ranks 0,2-3")
    assert module._OTHER_PROGRAM in str(error)
    assert scene.launches.count == 0


def test_a_new_generation_begins_at_nothing(scene):
    scene.run([FakeOutput(is_ready=False)])
    scene.launches.break_off(1, "was lost")
    scene.now_s += 1
    scene.launches.look()
    scene.launches.begin_generation([0, 1])
    assert (scene.launches.count, scene.launches.is_broken) == (0, False)
    assert scene.context.calls[0][-1] is False


def test_what_still_waits_is_torn_again_after_a_while_and_what_is_new_at_once(scene):
    scene.run([FakeOutput(is_ready=False)])
    scene.launches.break_off(1, "was lost")
    scene.now_s += 0.3
    for _ in range(10):
        scene.launches.look()
        scene.now_s += 0.05
    assert scene.torn == 1
    assert scene.ended_sends.empty(), "first it may end on its own"
    scene.now_s += 1
    scene.launches.look()
    assert scene.torn == 2
    assert scene.ended_sends.get(timeout=10) == "libjax_common.so"


def test_a_program_of_devices_of_before_is_refused_by_name_and_breaks_nothing(scene, monkeypatch):
    monkeypatch.setattr(refusals.private_runtime, "is_present", lambda _client: False)
    monkeypatch.setattr(refusals, "find_stale", lambda _names, _devices: (["x"], ["mesh"]))
    with pytest.raises(FrameworkError, match=r"before generation 1 \(mesh and x\)"):
        scene.run()
    assert not scene.launches.is_broken
    assert scene.launches.count == 0


def test_without_the_service_only_devices_that_have_met_compute_together(scene):
    scene.run()
    scene.why_gone = "reset by peer"
    scene.run()
    other = scene.program(list, processes=(0, 2))
    with pytest.raises(FrameworkError, match=r"\(reset by"):
        other(X)
    assert scene.launches.is_broken


# --- which errors say that a collective broke off ---

GLOO = "UNKNOWN: Gloo all-reduce failed: [pair.cc:547] Connection closed by peer [10.0.0.2]:1240"


class JaxRuntimeError(RuntimeError):
    """As JAX names it."""


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, JaxRuntimeError, KeyError])
@pytest.mark.parametrize("said", [GLOO, "Gloomy", "bug"])
def test_errors_of_gloo_are_found_whatever_jax_makes_of_them_and_those_of_users_are_not(kind, said):
    error = kind(said)
    assert find_broken(error) is (error if said == GLOO and kind is not KeyError else None)


def test_they_are_found_behind_what_user_code_makes_of_them():
    cause = JaxRuntimeError(GLOO)
    error = KeyError("step")
    error.__cause__ = cause
    assert find_broken(error) is cause
    error = KeyError("step")
    error.__context__ = cause
    assert find_broken(error) is cause
    error.__suppress_context__ = True
    assert find_broken(error) is None


def test_it_is_shortened_to_what_people_read():
    assert shorten(JaxRuntimeError(GLOO + "\nmore")) == GLOO.removeprefix("UNKNOWN: ")
    assert len(shorten(JaxRuntimeError("x" * 999))) == 201
    repeated = JaxRuntimeError(
        "INTERNAL: " + "Error dispatching computation: " * 40 + "Gloo failed"
    )
    assert shorten(repeated) == "INTERNAL: Error dispatching computation: Gloo failed"


class Unspeakable(RuntimeError):
    def __str__(self):
        raise KeyError("no text")


def test_an_error_that_cannot_be_written_out_is_passed_over():
    error = Unspeakable()
    assert find_broken(error) is None
    assert shorten(error) == error_text(error)
    assert shorten(ValueError("\n")) == "ValueError"
