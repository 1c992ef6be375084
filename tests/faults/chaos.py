"""A walk at random: a cluster lives through one thing after another, and a model says what is true.

Everything comes from the seed, so a walk that has found something can be run again.
"""

import os
import signal

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import TransferError, UsageError
from tests.processes.leftovers import coordinator_of, wait_until, zygotes_of
from tests.processes.listener import Listener
from tests.suspending import suspend

from .faults import SIGNAL
from .walk import ANSWER_WITHIN_S, Rank, Walk, describe_ends

LOSS_WITHIN_S = 5.0
SILENCE_WITHIN_S = 15.0
ENDINGS = {
    "sigkill": ("lost", "SIGKILL"),
    "exit": ("lost", "code 7"),
    "segfault": ("lost", "SIGSEGV"),
    "raise": ("raised", "bad batch"),
    "out_of_memory": ("raised", "MemoryError"),
}
WEIGHTS = {
    "hit_in_cell": 40,
    "hit_in_collective": 30,
    "hit_when_idle": 15,
    "hit_while_pushing": 6,
    "raise_early": 12,
    "hit_in_repair": 8,
    "stop_for_ever": 0.3,
    "compute": 12,
    "keep": 10,
    "push": 6,
    "pull": 6,
    "interrupt": 6,
    "look": 4,
    "attach": 2,
    "shrink": 2,
    "replace_living": 3,
    "kill_zygote": 0.5,
    "kill_coordinator": 0.5,
}
"""How often each thing happens; what takes seconds is rare."""


class Chaos(Walk):
    """The steps: each lets something happen, and notes in the model what must be true then."""

    weights = WEIGHTS

    # --- faults ---

    def pick(self):
        """Choose whom it befalls."""
        return self.choice.randrange(len(self.ranks))

    def strike(self, victim, fault):
        """Let something befall a rank that is armed for it."""
        self.faults += 1
        number = signal.SIGKILL if fault == "sigkill" else SIGNAL
        os.kill(self.ranks[victim].pid, number)
        if ENDINGS[fault][0] == "lost":
            self.ranks[victim].is_lost = True

    def hit_in_cell(self):
        """The others compute meanwhile, and are left alone."""
        self._hit("while not released: time.sleep(0.002)", "ok", "released = False\n")

    def hit_in_collective(self):
        """The others need the victim, and are released."""
        self._hit("while True: comm.all_reduce(np.ones(3))", "peer_failed")

    def _hit(self, loop, others_end, first=""):
        victim, fault = self.pick(), self.choice.choice(list(ENDINGS))
        self.note(f"{fault} of rank {victim}")
        status, words = ENDINGS[fault]
        code = f"deed = {fault!r}\n{first}"
        if first:  # some time later the others have computed enough
            code += "import threading\n"
            code += "def release():\n    global released\n    released = True\n"
            code += f"if rank != {victim}: threading.Timer(0.15, release).start()\n"
        code += f"print('here')\n{loop}\nrank"
        listener = Listener()
        running = self.pool.submit(self.cluster.run, code, watcher=listener)
        listener.wait_for("here", ranks=range(len(self.ranks)), within_s=ANSWER_WITHIN_S)
        self.strike(victim, fault)
        result = running.result(ANSWER_WITHIN_S)
        expected = [others_end] * len(self.ranks)
        expected[victim] = status
        assert [rank.status for rank in result] == expected, describe_ends(result)
        assert words in str(result[victim].error), describe_ends(result)
        for rank in result:
            if rank.status == "peer_failed":
                assert rank.error.peer_rank == victim, describe_ends(result)

    def raise_early(self):
        """A rank raises at once, the others wait for it."""
        victim = self.pick()
        self.note(f"rank {victim}")
        self.faults += 1
        result = self.cell(f"if rank == {victim}: boom()\ncomm.barrier()")
        assert result[victim].status == "raised", describe_ends(result)
        others = {rank.status for rank in result if rank.rank != victim}
        assert others == {"peer_failed"}, describe_ends(result)

    def hit_in_repair(self):
        """A rank is killed while all form a new generation, because one has raised."""
        self.raise_early()
        victim = self.pick()
        self.note(f"then sigkill of rank {victim}")
        self.strike(victim, "sigkill")
        self._await_loss(victim, "SIGKILL", LOSS_WITHIN_S)

    def hit_when_idle(self):
        """Nothing runs."""
        victim, fault = self.pick(), self.choice.choice(["sigkill", "exit", "segfault"])
        self.note(f"{fault} of rank {victim}")
        assert self.cell(f"deed = {fault!r}").ok
        self.strike(victim, fault)
        self._await_loss(victim, ENDINGS[fault][1], LOSS_WITHIN_S)

    def _await_loss(self, victim, words, within_s):
        def is_told():
            engine = self.cluster.topology().engines[victim]
            return engine.state == "lost" and words in engine.reason

        wait_until(is_told, within_s, f"rank {victim} is told as lost: {words}")

    def hit_while_pushing(self):
        """One of the ranks does not survive what is pushed."""
        victim = self.pick()
        self.note(f"rank {victim}")
        self.faults += 1
        self.ranks[victim].is_lost = True
        with pytest.raises(TransferError, match=f"rank {victim}.*is lost.*code 7"):
            self.in_time(self.cluster.push, {"pushed": Poison(victim)})

    def stop_for_ever(self):
        """A rank is stopped, and given up."""
        victim = self.pick()
        self.note(f"rank {victim}")
        self.faults += 1
        suspend(self.ranks[victim].pid)
        self.ranks[victim].is_lost = True
        self._await_loss(victim, "no heartbeat", SILENCE_WITHIN_S)

    def replace_living(self):
        """A rank that hears nothing is replaced at the person's wish; its cell fails with it."""
        victim = self.pick()
        self.note(f"rank {victim}")
        self.faults += 1
        listener = Listener()
        code = f"print('here')\nif rank == {victim}: ctypes.PyDLL(None).sleep(60)\ncomm.barrier()"
        running = self.pool.submit(self.cluster.run, code, watcher=listener)
        others = [rank for rank in range(len(self.ranks)) if rank != victim]
        listener.wait_for("here", ranks=others, within_s=ANSWER_WITHIN_S)
        healed = self.in_time(self.cluster.heal, victim)
        assert set(healed.replaced) == {victim}, healed
        result = running.result(ANSWER_WITHIN_S)
        expected = ["peer_failed"] * len(self.ranks)
        expected[victim] = "lost"
        assert [rank.status for rank in result] == expected, describe_ends(result)
        self.ranks[victim] = Rank(self.cluster.topology().engines[victim].pid)

    def kill_zygote(self):
        """A host loses the process that its ranks come from."""
        zygotes = zygotes_of(self.cluster)
        number = self.choice.randrange(len(zygotes))
        self.faults += 1
        children = {child.pid for child in zygotes[number].children()}
        self.note(f"of host {number}")
        zygotes[number].kill()
        for victim, rank in enumerate(self.ranks):
            if rank.pid in children:
                rank.is_lost = True
                self._await_loss(victim, "", LOSS_WITHIN_S)

    def kill_coordinator(self):
        """Everything ends, and a new cluster begins."""
        self.faults += 1
        coordinator_of(self.cluster).kill()
        assert self.in_time(self.cluster.topology).state == "gone"
        wait_until(lambda: not self.home.processes(), 15, "every process has ended")
        self.cluster.stop()
        self.start()

    # --- what people do ---

    def compute(self):
        """Nobody is hurt."""
        result = self.cell("print('rank', rank)\n[comm.all_reduce(k) for k in range(5)][-1].item()")
        assert [rank.stdout for rank in result] == [f"rank {k}\n" for k in range(len(self.ranks))]
        assert {rank.value_repr for rank in result} == {str(4 * len(self.ranks))}

    def keep(self):
        """Some ranks keep something else."""
        chosen = sorted(
            self.choice.sample(range(len(self.ranks)), self.choice.randint(1, len(self.ranks)))
        )
        value = self.choice.randrange(10**6)
        assert self.cell(f"kept = ({value}, os.getpid())", ranks=chosen).ok
        for number in chosen:
            self.ranks[number].kept = repr((value, self.ranks[number].pid))

    def push(self):
        """Everybody gets the same."""
        value = bytes(self.choice.randrange(256) for _ in range(8)) * self.choice.choice(
            [1, 200_000]
        )
        self.in_time(self.cluster.push, {"kept": len(value), "pushed": value})
        for rank in self.ranks:
            rank.kept = repr(len(value))

    def pull(self):
        """What is pulled is what was kept; ranks without it are named."""
        missing = [number for number, rank in enumerate(self.ranks) if rank.kept is None]
        if missing:
            with pytest.raises(TransferError, match=f"ranks? {missing[0]}"):
                self.in_time(self.cluster.pull, "kept")
        else:
            found = self.in_time(self.cluster.pull, "kept")
            assert [repr(value) for value in found.values()] == [rank.kept for rank in self.ranks]

    def interrupt(self):
        """A cell that would never end does."""
        listener = Listener()
        running = self.pool.submit(
            self.cluster.run, "print('here')\nwhile True: pass", watcher=listener
        )
        listener.wait_for("here", ranks=range(len(self.ranks)), within_s=ANSWER_WITHIN_S)
        self.in_time(self.cluster.interrupt)
        result = running.result(ANSWER_WITHIN_S)
        assert {rank.status for rank in result} == {"interrupted"}, describe_ends(result)

    def look(self):
        """Questions are answered."""
        assert len(self.in_time(self.cluster.status).ranks) == len(self.ranks)
        assert not self.in_time(self.cluster.who, "kept").notes
        assert self.in_time(self.cluster.stacks) is not None
        assert isinstance(self.in_time(self.cluster.explain), str)

    def attach(self):
        """The notebook leaves, and comes again."""
        name = self.cluster.name
        self.cluster.detach()
        self.cluster = self.in_time(Cluster.attach, name)

    def shrink(self):
        """Nobody is lost: there is nothing to shrink."""
        with pytest.raises(UsageError, match="every rank"):
            self.in_time(self.cluster.shrink)


class Poison:
    """An object that ends one rank as it arrives."""

    def __init__(self, victim):
        self.victim = victim

    def __reduce__(self):
        code = f"import os\nif int(os.environ['RANK']) == {self.victim}: os._exit(7)"
        return exec, (code,)
