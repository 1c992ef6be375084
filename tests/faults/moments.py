"""When something befalls a rank: each moment is begun, known to be reached, and released.

A moment is reached by an event: a word that all ranks have said, or a file that one has made.
"""

import numpy as np
import pytest

from jupyter_dist.errors import CellRefused, HealFailed, TransferError
from tests.processes.leftovers import placed_files, wait_until
from tests.processes.listener import Listener
from tests.suspending import suspend

from . import promises
from .faults import Outcome
from .scene import BYSTANDER, REACHED_WITHIN_S

REPLACED_WITHIN_S = 10.0
"""From a loss to the new ranks, where a host needs a new agent first."""


class Idle:
    """Nothing runs."""

    def begin(self, scene):
        """Nothing is to be done."""

    def finish(self, scene):
        """The status tells of a loss; of anything else the next cell knows nothing."""
        if scene.outcome is Outcome.LOST:
            scene.assert_is_told()
        else:
            assert scene.in_background(scene.cluster.run, "1").result(scene.fault.within_s).ok


class InCell:
    """A cell runs on all ranks."""

    survivors_end = "peer_failed"

    def code(self, scene):
        """The cell, which says `here`."""
        raise NotImplementedError

    def begin(self, scene):
        """Send it; reached when all ranks have said something."""
        self.listener = Listener()
        self.answer = scene.in_background(
            scene.cluster.run, self.code(scene), watcher=self.listener
        )
        self.listener.wait_for("here", ranks=range(4), within_s=REACHED_WITHIN_S)

    def finish(self, scene):
        """The victim's end is told in time, with its reason, and nobody's end is a lie."""
        fault, victims = scene.fault, scene.victims
        if scene.outcome is not Outcome.OK:
            wait_until(
                lambda: {end.rank for end in self.listener.finished} >= set(victims),
                fault.within_s,
                "the notebook knows of it",
            )
        scene.go.touch()
        result = self.answer.result(fault.within_s)
        survivors = "ok" if scene.outcome is Outcome.OK else self.survivors_end
        expected = [survivors] * 4
        for victim in victims:
            expected[victim] = str(scene.outcome)
        assert [rank.status for rank in result] == expected, describe(result)
        assert all(fault.words in str(result[victim].error) for victim in victims)
        for rank in result:
            if rank.status == "peer_failed":
                assert rank.error.peer_rank in victims, describe(result)
            if rank.status == "ok":
                assert rank.value_repr == "'done'", describe(result)
        self.check(result, scene)

    def check(self, result, scene):
        """Look at what ranks have said."""


class Computing(InCell):
    """Ranks compute, and need each other for nothing."""

    survivors_end = "ok"

    def code(self, scene):
        """Wait for a file."""
        return (
            f"print('here')\nwhile not os.path.exists({str(scene.go)!r}): time.sleep(0.005)\n'done'"
        )


class InACollective(InCell):
    """Ranks call one collective after the other."""

    def code(self, scene):
        """Add numbers up until a file is there."""
        return (
            "print('here')\n"
            f"while not comm.all_reduce(np.array([float(os.path.exists({str(scene.go)!r}))])).any(): pass\n"
            "'done'"
        )


class Printing(InCell):
    """Ranks print so much that someone has to wait."""

    def code(self, scene):
        """Number the lines."""
        return (
            "for k in itertools.count():\n"
            "    print(k, 'here', 'x' * 90)\n"
            f"    if k % 500 == 499 and comm.all_reduce(np.array([float(os.path.exists({str(scene.go)!r}))])).any(): break\n"
            "'done'"
        )

    def check(self, result, scene):
        """Nothing of what was printed is missing."""
        for rank in result:
            may_be_cut = rank.status in ("lost", "raised")
            promises.assert_lines_complete(rank.stdout, may_be_cut=may_be_cut)


class Slow:
    """An object that takes its time where it arrives."""

    def __init__(self, code):
        self.code = code

    def __reduce__(self):
        imports = "import os, time; rank = int(os.environ['RANK'])\n"
        return exec, (imports + self.code,)


class Pushing:
    """Ranks take in an object."""

    def begin(self, scene):
        """Reached when each rank has begun to take it in."""
        self.answer = scene.in_background(scene.cluster.push, {"pushed": Slow(scene.hold)})
        scene.wait_until_here(range(4))

    def finish(self, scene):
        """The error names the rank and its reason; the others have the object."""
        if scene.outcome is Outcome.OK:
            scene.go.touch()
            self.answer.result(scene.fault.within_s)
            return
        if scene.outcome is Outcome.LOST:
            scene.assert_is_told()
        scene.go.touch()
        error = self.answer.exception(scene.fault.within_s)
        assert isinstance(error, TransferError), error
        scene.assert_is_named(error)
        others = [rank for rank in range(4) if rank not in scene.victims]
        assert scene.cluster.run("assert pushed is None", ranks=others).ok


class PushingMuch:
    """What is large lies in the memory of the host, where a rank that is stopped does not take it."""

    def begin(self, scene):
        """Reached when the others have it."""
        engines = scene.cluster.topology().engines
        for victim in scene.victims:
            suspend(engines[victim].pid)
        self.answer = scene.in_background(
            scene.cluster.push, {"pushed": np.arange(1 << 20), "kept_too": 1}
        )
        others = [rank for rank in range(4) if rank not in scene.victims]

        def have_it():
            return all(scene.cluster.topology().engines[rank].state == "idle" for rank in others)

        wait_until(lambda: placed_files(scene.cluster), REACHED_WITHIN_S, "it lies in memory")
        wait_until(have_it, REACHED_WITHIN_S, "the others have it")

    def finish(self, scene):
        """The error names the rank, the others have it, and the memory is free."""
        scene.assert_is_told()
        error = self.answer.exception(scene.fault.within_s)
        assert isinstance(error, TransferError), error
        scene.assert_is_named(error)
        wait_until(lambda: not placed_files(scene.cluster), 3, "nothing lies in memory any more")
        others = [rank for rank in range(4) if rank not in scene.victims]
        result = scene.cluster.run("int(pushed[-1])", ranks=others)
        assert [rank.value_repr for rank in result] == [str((1 << 20) - 1)] * len(others)


class InHealing:
    """A lost rank is being replaced."""

    replaces_victims = False
    """Who is lost meanwhile is replaced as well: new ranks have not joined yet."""

    def begin(self, scene):
        """Let the victim wait in what `plant` puts in its way."""
        self.plant(scene)
        scene.lose_bystander()
        self.stages = []
        self.answer = scene.in_background(scene.cluster.heal, on_stage=self.stages.append)
        scene.wait_until_here([self.who(scene)])

    def who(self, scene):
        """The rank that waits."""
        return scene.victims[0]

    def plant(self, scene):
        """Put something in the way of the victim, which is there already."""
        hold = scene.hold.replace("\n", "\n    ")
        code = (
            "import jupyter_dist.engine.__main__ as life\n"
            f"before = {self.function}\n"
            "def wait_first(*arguments):\n"
            f"    {self.function} = before\n"
            f"    {hold}\n"
            "    return before(*arguments)\n"
            f"{self.function} = wait_first"
        )
        assert scene.cluster.run(code, ranks=self.who(scene)).ok

    def finish(self, scene):
        """Victims are replaced as well; or healing fails, naming one; or nothing has happened."""
        fault = scene.fault
        if scene.outcome is not Outcome.OK:
            error = self.answer.exception(fault.within_s + REPLACED_WITHIN_S)
            scene.go.touch()
            if self.replaces_victims and scene.outcome is Outcome.LOST and error is None:
                assert set(self.answer.result().replaced) == {BYSTANDER, *scene.victims}
                return
            # An agent without a zygote says so at once: often before its ranks are known as lost.
            may_fail = scene.outcome is Outcome.RAISED or fault.name == "zygote_killed"
            assert may_fail or not self.replaces_victims, error
            assert isinstance(error, HealFailed), error
            scene.assert_is_named(error)
            if scene.outcome is Outcome.RAISED:  # the ranks are all there, but have no communicator
                with pytest.raises(CellRefused, match="bad batch"):
                    scene.cluster.run("1", ranks=scene.victims)
        else:
            scene.go.touch()
            healed = self.answer.result(fault.within_s)
            assert set(healed.replaced) == {BYSTANDER}


class Rendezvous(InHealing):
    """A rank has not said Hello to the new generation yet."""

    function = "life.Engine._say_hello"
    replaces_victims = True

    def begin(self, scene):
        """Reached when it is told that all wait for this rank."""
        super().begin(scene)
        told = f"waiting for rank {self.who(scene)} to join generation"
        wait_until(lambda: any(told in stage for stage in self.stages), REACHED_WITHIN_S, told)


class Forming(InHealing):
    """A rank has not formed its communicator of the new generation yet."""

    function = "life.make_communicator"
    replaces_victims = True


class Healing(InHealing):
    """The new rank runs what was marked as setup."""

    def who(self, scene):
        """The new one."""
        return BYSTANDER

    def plant(self, scene):
        """What the new rank does first stands in a file that a setup cell reads."""
        if len(scene.victims) == 1:
            scene.victims = (BYSTANDER,)
        scene.setup.write_text(f"deed = {scene.fault.deed!r}\n{scene.hold}")

    def finish(self, scene):
        """What the new rank raises is told, and costs it nothing."""
        if scene.outcome is not Outcome.RAISED:
            super().finish(scene)
            scene.setup.write_text("")
            return
        healed = self.answer.result(scene.fault.within_s)
        scene.setup.write_text("")
        (problem,) = healed.problems
        scene.assert_is_named(problem)
        scene.go.touch()


def describe(result):
    """How a cell ended on each rank."""
    return [f"{rank.rank}: {rank.status} {rank.error}" for rank in result]


MOMENTS = {
    "idle": Idle,
    "computing": Computing,
    "in_a_collective": InACollective,
    "printing": Printing,
    "pushing": Pushing,
    "pushing_much": PushingMuch,
    "rendezvous": Rendezvous,
    "forming": Forming,
    "healing": Healing,
}
