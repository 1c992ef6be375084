"""Hosts that will be taken away: all ranks save at one call, and the agent waits for them."""

import json
import os
import signal

import pytest

from jupyter_dist.checkpoint.storage.directory import find
from jupyter_dist.model.spec.cluster_spec import HostSpec
from tests.facts import assert_tells
from tests.matrix import only

from .leftovers import agents_of, coordinator_of, engines_of, is_alive, wait_until, zygotes_of
from .listener import Listener
from .results import values

HOSTS = (HostSpec("a", 1, launcher="local"), HostSpec("b", 1, launcher="local"))
LOOP = """
import time
found, text = [], None
for number in range(100_000):
    time.sleep({pace})
    if checkpoint.should_save({given}):
        found.append(number)
        text = checkpoint.notice
        if len(found) == {count}:
            break
    if number == 40:
        print("in the loop", flush=True)
found
"""
SHORT_TIMES = """
import sys
from jupyter_dist.model.ranks import preemption_agreement
preemption_agreement.DEFAULT_LEFT_S = 6.0
if "jupyter_dist.agent" in sys.orig_argv:
    from jupyter_dist.agent.host import preemption_watch
    preemption_watch.INTERVAL_S = 0.5
"""
WAIT = "import time\nprint('waits', flush=True)\nfor _ in range(10**6): time.sleep(0.01)"


def loop(pace="0.002", given="", count=1):
    return LOOP.format(pace=pace, given=given, count=count)


@pytest.fixture
def two(start):
    """One rank on each of two hosts."""
    return start(HOSTS, one_machine=True)


@pytest.fixture
def short_times(first_of_all):
    """What starts from now on takes 6 s to be left after SIGTERM, and asks commands twice a second."""
    first_of_all(SHORT_TIMES)


@pytest.fixture
def running(in_background):
    """Run a cell that says a word on these ranks; gives its future, and who listens to it."""

    def run(cluster, code, word="in the loop", ranks=(0, 1), **options):
        listener = Listener()
        future = in_background(cluster.run, code, watcher=listener, **options)
        listener.wait_for(word, ranks, 20)
        return future, listener

    return run


def await_agents(cluster):
    """Wait until the agents have taken in all that was said to them, as who wants notices.

    The records of ranks come from them, asked for on the same stream.
    """
    cluster.collectives(1)


def terminate(cluster, number=1):
    """Send SIGTERM to the agent of a host that knows who wants notices; gives its process."""
    await_agents(cluster)
    agent = agents_of(cluster)[number]
    agent.send_signal(signal.SIGTERM)
    return agent


def await_lost(cluster, *ranks):
    """Wait until the loss is known: an agent that has ended is heard of a moment later."""
    wait_until(
        lambda: all(cluster.status().ranks[rank] == "lost" for rank in ranks), 20, "they are lost"
    )


def write_at_once(path, text):
    """Make a file that is never seen half written."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, path)


def await_end(agent):
    wait_until(lambda: not is_alive(agent), 10, "the agent has ended")


def save_together(cluster, running, code, within_s=30):
    """Take a host away while all ranks are in a cell; give the one value that it has, and notes."""
    future, listener = running(cluster, code)
    agent = terminate(cluster)
    first, second = values(future.result(within_s))
    assert first == second
    await_end(agent)
    return first, listener


def terminate_all(cluster):
    """Send SIGTERM to all processes of the hosts, as scancel does; gives the agents."""
    agents = agents_of(cluster)
    await_agents(cluster)
    for process in (*agents, *zygotes_of(cluster), *engines_of(cluster)):
        process.send_signal(signal.SIGTERM)
    return agents


# --- all ranks save at one call ---


@pytest.mark.parametrize(
    "pace",
    only(["0.001 + 0.006 * rank"], ["0.002", "0.001 + 0.006 * rank"]),
    ids=["together", "far apart"],
)
def test_all_ranks_save_at_the_same_call_and_the_agent_waits_for_them(two, running, pace):
    first, listener = save_together(two, running, loop(pace))
    assert int(first.strip("[]")) > 10
    (notice,) = map(eval, values(two.run("text", ranks=0)))
    assert_tells(notice, "b ", "taken away", "(SIGTERM)")
    listener.wait_for_note(notice)
    assert values(two.run("checkpoint.notice is None", ranks=0)) == ["True"]
    note = two.topology().note
    assert_tells(note, f"{notice}; every rank")
    assert is_alive(agents_of(two)[0])


def test_with_steps_all_ranks_save_at_the_same_step(two, running):
    code = loop("0.002 + 0.004 * rank", "1000 + 10 * number") + "\n1000 + 10 * found[0]"
    first, _ = save_together(two, running, code)
    assert int(first) % 10 == 0


@pytest.mark.slow
def test_a_second_notice_works_as_the_first(two, running):
    future, listener = running(two, loop(count=2))
    first, second = agents_of(two)
    await_agents(two)
    second.send_signal(signal.SIGTERM)
    listener.wait_for_note("(SIGTERM); every rank")
    await_end(second)
    first.send_signal(signal.SIGTERM)
    kept, lost = future.result(30)
    assert lost.status == "lost"
    once, twice = json.loads(kept.value_repr)
    assert once < twice
    listener.wait_for_note("a will be")
    await_end(first)
    await_lost(two, 0, 1)
    assert set(two.heal().replaced) == {0, 1}
    save_together(two, running, loop())
    assert two.topology().note.startswith("b will be")


def test_signals_for_all_processes_of_a_job_end_no_rank_before_it_has_saved(two, running):
    """As scancel and Slurm's --signal send them."""
    future, _ = running(two, loop() + "\ntime.sleep(0.3)\nfound")
    agents = terminate_all(two)
    first, second = values(future.result(30))
    assert first == second
    for agent in agents:
        await_end(agent)


def test_a_rank_that_has_not_asked_yet_lives_on_when_all_processes_are_signalled(
    two, running, tmp_path
):
    """As one that still imports or compiles while others are in their loop."""
    go_on = tmp_path / "go on"
    prelude = (
        "import os, time\n"
        "if rank == 1:\n"
        "    print('imports', flush=True)\n"
        f"    while not os.path.exists({str(go_on)!r}): time.sleep(0.005)\n"
    )
    future, listener = running(two, prelude + loop() + "\ntime.sleep(0.3)\nfound", ranks=(0,))
    listener.wait_for("imports", (1,))
    agents = terminate_all(two)
    listener.wait_for_note("taken away")
    go_on.touch()
    first, second = values(future.result(30))
    assert first == second
    for agent in agents:
        await_end(agent)


# --- who has called nothing ---


def assert_nobody_was_told(cluster, listener):
    """There was no notice, for which the agent would have waited, however quick or slow that is."""
    wait_until(
        lambda: "lost" in cluster.status().ranks.values(),
        10,
        "it is known that the agent has ended",
    )
    assert "taken away" not in "".join([*listener.notes, cluster.topology().note])


@pytest.mark.parametrize("before", only(["pass"], ["pass", "checkpoint.should_save()"]))
def test_without_interest_of_the_running_cell_an_agent_ends_at_once(two, running, within, before):
    two.run(before).raise_first()
    future, listener = running(two, WAIT, "waits")
    with within(3):
        await_end(terminate(two))
    assert_nobody_was_told(two, listener)
    two.interrupt()
    assert [rank.status for rank in future.result(30)] == ["interrupted", "lost"]


@pytest.mark.slow
@pytest.mark.usefixtures("short_times")
def test_a_rank_that_never_calls_should_save_is_named(start, running):
    two = start(HOSTS, one_machine=True)
    code = (
        "import time\n"
        "for number in range(10**6):\n"
        "    time.sleep(0.005)\n"
        "    if number == 100: print('in the loop', flush=True)\n"
        "    if rank == 0: checkpoint.should_save()\n"
    )
    future, listener = running(two, code)
    agent = terminate(two)
    listener.wait_for_note("rank 1 has not", 60)
    await_end(agent)
    two.interrupt()
    future.result(30)


# --- functions that are to be called ---

REGISTER = """
import json, pathlib
told = pathlib.Path({path!r}, f"told-{{rank}}")

@checkpoint.on_preempt
def tell():
    with told.open("a") as file:
        file.write(json.dumps([rank, checkpoint.notice]) + "\\n")
"""


def read_told(path, rank):
    return [json.loads(line) for line in (path / f"told-{rank}").read_text().splitlines()]


@pytest.mark.parametrize("how", only(["in a cell"], ["idle", "in a cell"]))
def test_functions_are_called_once_on_every_rank(two, running, tmp_path, how):
    two.run(REGISTER.format(path=str(tmp_path))).raise_first()
    future = None
    if how == "in a cell":
        future, _ = running(two, loop())
    agent = terminate(two)
    await_end(agent)
    if future is not None:
        future.result(30)
    for rank in (0, 1):
        ((who, notice),) = read_told(tmp_path, rank)
        assert who == rank
        assert_tells(notice, "b ", "taken away", "(SIGTERM)")


@pytest.mark.slow
def test_ranks_that_have_finished_their_cell_early_are_called_when_it_ends(two, running, tmp_path):
    two.run(REGISTER.format(path=str(tmp_path))).raise_first()
    code = "import time\nif rank == 0:\n    print('waits', flush=True)\n    time.sleep(1.5)"
    future, _ = running(two, code, "waits", ranks=(0,))
    await_end(terminate(two))
    assert future.result(30).rank(0).status == "ok"
    for rank in (0, 1):
        assert len(read_told(tmp_path, rank)) == 1


@pytest.mark.slow
def test_a_function_that_raises_is_told_and_the_others_are_called(two, running, tmp_path):
    two.run("@checkpoint.on_preempt\ndef bad():\n    raise ValueError('no disk')").raise_first()
    two.run(REGISTER.format(path=str(tmp_path))).raise_first()
    future, listener = running(two, loop())
    agent = terminate(two)
    assert future.result(30).ok
    await_end(agent)
    assert "ValueError: no disk" in listener.text[0]
    assert len(read_told(tmp_path, 1)) == 1
    note = two.topology().note
    assert "ranks 0-1: bad() of on_preempt raised ValueError: no disk" in note


@pytest.mark.slow
def test_a_function_that_hangs_is_ended_and_the_rank_lives(two, running):
    code = "@checkpoint.on_preempt\ndef hang():\n    import time\n    time.sleep(600)\n"
    others = "for _ in range(9): checkpoint.on_preempt(lambda: None)"  # the time is for all of them
    two.run(code + others, ranks=0).raise_first()
    _, listener = save_together(two, running, loop(), within_s=90)
    assert_tells(two.topology().note, "hang() ", "on_preempt", "ended")
    assert values(two.run("rank", ranks=0)) == ["0"]
    assert listener.notes


# --- the command ---


@pytest.mark.usefixtures("short_times")
def test_a_command_tells_that_a_host_will_be_taken_away_and_its_agent_stays(
    start, running, tmp_path
):
    word = tmp_path / "gone"
    two = start("localhost:2", preempt_command=f"cat {word}")
    future, listener = running(two, loop())
    write_at_once(word, "the price has gone up\nand more\n")
    first, second = values(future.result(60))
    assert first == second
    listener.wait_for_note("(the price has gone up)")
    assert two.status().ranks == {0: "idle", 1: "idle"}
    assert all(is_alive(agent) for agent in agents_of(two))
    assert_tells(two.topology().note, "localhost ", "taken away", "(the price has gone up)")
    word.unlink()
    wait_until(lambda: not two.topology().note, 15, "the notice is withdrawn")
    future, listener = running(two, loop())
    write_at_once(word, "again\n")
    first, second = values(future.result(60))
    assert first == second
    listener.wait_for_note("(again)")


# --- saving on its own ---


@pytest.mark.parametrize("how", only(["in a cell"], ["idle", "in a cell"]))
def test_what_is_marked_is_saved_by_itself(start, running, tmp_path, how):
    two = start(HOSTS, one_machine=True, save_on_preempt=str(tmp_path / "saved"))
    code = "import numpy as np\nx = np.arange(6.0) + rank\nseen = 7\ncheckpoint.mark('x', 'seen')"
    two.run(code).raise_first()
    future = None
    if how == "in a cell":
        future, _ = running(two, loop())
    agent = terminate(two)
    await_end(agent)
    if future is not None:
        future.result(30)
    assert "every rank" in two.topology().note
    (found,) = find(str(tmp_path / "saved"))
    assert found.world_size == 2
    await_lost(two, 1)
    two.heal()
    restored = two.run(f"checkpoint.restore_variables({str(tmp_path / 'saved')!r})['restored']")
    assert restored.ok, [str(rank.error) for rank in restored]
    assert (
        values(two.run("x.tolist() == [rank + float(n) for n in range(6)], seen"))
        == ["(True, 7)"] * 2
    )


@pytest.mark.slow
def test_what_an_interrupt_keeps_from_being_saved_is_saved_when_the_cell_has_ended(
    start, running, tmp_path
):
    two = start(HOSTS, one_machine=True, save_on_preempt=str(tmp_path / "saved"))
    code = (
        "import time\n"
        "class Slow:\n"
        "    count = 0\n"
        "    def state_dict(self):\n"
        "        Slow.count += 1\n"
        "        if Slow.count == 1:\n"
        "            print('saves', flush=True)\n"
        "            time.sleep(600)\n"
        "        return {'seen': 7}\n"
        "    def load_state_dict(self, state): pass\n"
        "model = Slow()\n"
        "checkpoint.mark('model')\n"
    )
    two.run(code).raise_first()
    future, listener = running(two, loop())
    agent = terminate(two)
    listener.wait_for("saves", (0, 1))
    two.interrupt()
    assert [rank.status for rank in future.result(30)] == ["interrupted"] * 2
    await_end(agent)
    assert "every rank" in two.topology().note
    (found,) = find(str(tmp_path / "saved"))
    assert found.world_size == 2


@pytest.mark.slow
def test_what_cannot_be_saved_is_told_and_the_rank_goes_on(start, running, tmp_path):
    (tmp_path / "file").write_text("in the way")
    two = start(HOSTS, one_machine=True, save_on_preempt=str(tmp_path / "file"))
    two.run("x = rank\ncheckpoint.mark('x')").raise_first()
    save_together(two, running, loop())
    assert "not saved" in two.topology().note


# --- JAX ---


@pytest.mark.slow
def test_jax_hears_of_it_at_one_step_on_all_ranks(two, running):
    pytest.importorskip("jax")
    two.run("import jax\njax.distributed.initialize()").raise_first()
    code = (
        "import time\nfrom jax.experimental import multihost_utils\nfound = None\n"
        "checkpoint.on_preempt(lambda: None)\n"
        "for step in range(100_000):\n"
        "    time.sleep(0.004)\n"
        "    if step == 100: print('in the loop', flush=True)\n"
        "    if multihost_utils.reached_preemption_sync_point(step):\n"
        "        found = step\n        break\n"
        "found"
    )
    first, _ = save_together(two, running, code, within_s=40)
    assert int(first) > 100


# --- what goes wrong meanwhile ---


@pytest.mark.slow
def test_a_rank_that_is_lost_meanwhile_is_not_waited_for(two, running):
    code = (
        "import time\nfor n in range(10**6):\n    time.sleep(0.005)\n"
        "    if n == 100: print('in the loop', flush=True)\n"
        "    if rank == 0 and checkpoint.should_save(): break\n"
    )
    future, listener = running(two, code)
    engine = engines_of(two)[1]
    agent = terminate(two)
    listener.wait_for_note("b will be")
    engine.kill()
    statuses = [rank.status for rank in future.result(30)]
    assert statuses == ["ok", "lost"]
    await_end(agent)


@pytest.mark.usefixtures("sweep")
def test_an_agent_does_not_wait_for_a_coordinator_that_is_gone(two, running):
    future, listener = running(
        two, WAIT.replace("print", "checkpoint.should_save(); print"), "waits"
    )
    agents, engines = agents_of(two), engines_of(two)
    terminate(two)
    listener.wait_for_note("b will be")
    coordinator_of(two).kill()
    for process in (*agents, *engines):
        wait_until(lambda p=process: not is_alive(p), 15, f"process {process.pid} has ended")
    future.exception(30)
    two.stop()
