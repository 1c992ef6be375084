"""Whoever is killed at whatever moment of saving: what can be loaded is what was saved.

The moments come from a seed, which is printed: CHECKPOINT_SEED=… kills again at the same ones, as
far as processes let themselves be timed, and CHECKPOINT_KILLS says how many there are.
"""

import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from jupyter_dist.errors import ClusterGone
from tests.matrix import few_or_many
from tests.processes.conftest import ClusterFactory
from tests.processes.leftovers import Home, command_of, coordinator_of, engines_of, wait_until
from tests.processes.results import values

from . import read_checkpoints, saved_tree
from .conftest import describe, sweep
from .save_moments import NEVER_S, PHASES, Bell, Moment, Strike, bytes_of, phase_of, time_phases

pytestmark = pytest.mark.timeout(600)

KILLS = few_or_many("CHECKPOINT_KILLS", 12, 50)
SEED = int(os.environ.get("CHECKPOINT_SEED", time.time_ns() % 1_000_000))
VICTIMS = ("rank",) * 7 + ("agent",) * 2 + ("coordinator",)
"""How often each of them is killed, of ten times."""
TOLD_WITHIN_S = 15.0
SAMPLE = 3
"""Every third time a cluster restores as well."""
SETUP = f"""
import os, sys
sys.path.insert(0, {str(Path(saved_tree.__file__).parent)!r})
import saved_tree
def compare(directory):
    tree = checkpoint.restore(directory)
    step = tree["progress"][0]
    return step, saved_tree.differences(tree, step, rank, world_size)
"""


class Saving:
    """A cluster whose ranks save into one directory, the files there, and what is known of them."""

    def __init__(self, root):
        self.directory = root / "checkpoints"
        self.bell = Bell(root / "bell")
        self.step = 0
        """The newest that was saved, or begun."""
        self.whole_bytes = 1 << 62
        self.cluster = None
        self._home = Home(root / "home")
        self._factory = ClusterFactory(self._home)

    def start(self):
        """Start a cluster, unless there is one."""
        if self.cluster is None:
            with pytest.MonkeyPatch.context() as monkeypatch:
                self._home.enter(monkeypatch)
                spec = describe("localhost", "127.0.0.1")
                self.cluster = self._factory(None, spec=spec, timeout_s=30)
            assert self.cluster.run(SETUP, is_setup=True).ok

    def save(self):
        """Save the next step on all ranks, keep two; what came of the cell."""
        self.start()
        self.step += 1
        return self.cluster.run(
            f"tree = saved_tree.make_tree({self.step}, rank, world_size, checkpoint.Shard)\n"
            "comm.barrier()\n"
            f"{self.bell.ring}"
            f"_ = checkpoint.save({str(self.directory)!r}, tree, {self.step}, keep_last=2)"
        )

    def save_well(self):
        """Save the next step; it succeeds, and of all that was broken off before nothing is left."""
        result = self.save()
        assert result.ok, [str(rank.error) for rank in result]
        left = [
            name for name in os.listdir(self.directory) if not re.fullmatch(r"step-\d{8}", name)
        ]
        assert not left, f"left by a save that was broken off: {left}"

    def time_phases(self):
        """Save the next step; give when it came to which phase, in seconds from its beginning."""
        return time_phases(self.bell, self.look, self.save_well)

    @property
    def look(self):
        """Tells in which phase the next save is."""
        return partial(phase_of, self.directory, self.step + 1, self.whole_bytes)

    def read(self):
        """Have a fresh process read all checkpoints; give the newest step, and all of them."""
        words = [sys.executable, read_checkpoints.__file__, str(self.directory)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        wrong = {step: what for step, what in told["steps"].items() if what}
        assert not wrong, f"loads wrong data: {wrong}"
        assert str(told["latest"]) in told["steps"]
        return told["latest"], {int(step) for step in told["steps"]}

    def lose_cluster(self):
        """Wait until nothing of a cluster runs whose coordinator is gone."""
        wait_until(lambda: not self._home.processes(), TOLD_WITHIN_S, "every process has ended")
        self.cluster = None

    def close(self):
        """Stop it; nothing of any cluster may be left."""
        self.bell.close()
        self._factory.close()
        with pytest.MonkeyPatch.context() as monkeypatch:
            self._home.enter(monkeypatch)
            sweep(self._home)
        self._home.assert_nothing_left(within_s=3)


@pytest.fixture
def saving(tmp_path):
    saving = Saving(tmp_path)
    yield saving
    saving.close()


def draw_moments(choice, kills, seen):
    """Half of them lie evenly over the length of a save, half right after what can be seen of it."""
    whole_s = 1.1 * statistics.median(each["committed"] for each in seen)
    evenly = kills // 2
    moments = [Moment("begun", whole_s * (n + choice.random()) / evenly) for n in range(evenly)]
    for n in range(kills - evenly):
        delay_s = choice.random() ** 3 * whole_s / 10
        moments.append(Moment(PHASES[1 + n % (len(PHASES) - 1)], delay_s))
    choice.shuffle(moments)
    return moments


def agent_of(engine):
    """The process of the agent that watches over an engine."""
    return next(each for each in engine.parents() if "jupyter_dist.agent" in command_of(each))


def choose_victim(choice, cluster):
    """Whom to kill: its name, its process, and the ranks that are lost then."""
    kind = choice.choice(VICTIMS)
    if kind == "coordinator":
        return kind, coordinator_of(cluster), ()
    engines = engines_of(cluster)
    rank = choice.randrange(len(engines))
    if kind == "rank":
        return f"rank {rank}", engines[rank], [rank]
    agent = agent_of(engines[rank])
    return "agent", agent, [rank for rank, each in enumerate(engines) if agent_of(each) == agent]


def assert_reports_are_true(saving, result, steps):
    """A rank that was told that it saved has saved; who was not told may learn it from `latest`."""
    if any(rank.status == "ok" for rank in result):
        assert saving.step in steps, "a rank was told of a checkpoint that is not there"


def break_off(saving, choice, moment):
    """Kill someone at this moment of a save; what stands there then is whole.

    Gives the phase in which that was, and the newest step that can be loaded.
    """
    name, victim, lost = choose_victim(choice, saving.cluster)
    before, strike = saving.step, Strike(saving.bell, moment, saving.look, victim.kill)
    print(f"step {saving.step + 1}: {name} {moment}", end="", flush=True)
    try:
        result = saving.save()
    except ClusterGone:
        assert name == "coordinator"
        result = ()
    strike.join(2 * NEVER_S)
    assert strike.phase, f"the save never came to {moment.phase!r}"
    print(f" -> {strike.phase}", flush=True)
    if name == "coordinator":
        saving.lose_cluster()
    else:
        for rank in lost:
            wait_until(
                lambda rank=rank: saving.cluster.topology().engines[rank].state == "lost",
                TOLD_WITHIN_S,
                f"rank {rank} is told as lost",
            )
    newest, steps = saving.read()
    assert newest in (before, saving.step)
    assert before in steps, "the one before is gone"
    assert_reports_are_true(saving, result, steps)
    if saving.cluster is not None:
        saving.cluster.heal()
    saving.start()
    return strike.phase, newest


def assert_restored(saving, step):
    """All ranks of the cluster restore what was saved as this step."""
    code = f"compare({str(saving.directory)!r})"
    assert values(saving.cluster.run(code)) == [repr((step, []))] * saving.cluster.world_size


@pytest.mark.slow
@pytest.mark.parametrize("kills", KILLS)
def test_whoever_is_killed_while_ranks_save_what_loads_is_what_was_saved(kills, saving):
    print(f"CHECKPOINT_SEED={SEED} CHECKPOINT_KILLS={kills}")
    choice = random.Random(SEED)
    saving.save_well()
    saving.whole_bytes = bytes_of(saving.directory / f"step-{saving.step:08d}")
    seen = [saving.time_phases() for _ in range(3)]
    print(f"phases of a save, in s: {seen}")
    met = Counter()
    for number, moment in enumerate(draw_moments(choice, kills, seen)):
        phase, newest = break_off(saving, choice, moment)
        met[phase] += 1
        if number % SAMPLE == 0:
            assert_restored(saving, newest)
        saving.save_well()
    print(f"killed in: {dict(met)}")
    assert saving.read()[0] == saving.step
    if kills >= 30:
        # Which phases are met besides is chance: some last less than a millisecond.
        assert "committed" in met, f"nothing was struck at its end: {met}"
        assert len(met) >= 3, f"not all of a save was tried: {met}"
