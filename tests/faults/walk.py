"""A cluster and a model of it: which process each rank is, what it keeps, whether it is lost."""

import random
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import CellRefused
from jupyter_dist.model.hosts.rank import name_ranks

from .conftest import describe
from .faults import ARM

ANSWER_WITHIN_S = 15.0
"""Whatever is asked is answered within this time; on an idle machine it takes 0.3 s."""
REMEMBERED_STEPS = 20
FEWEST_RANKS = 3


@dataclass
class Rank:
    """What is known of one rank."""

    pid: int
    kept: str | None = None
    """`repr` of the variable `kept`; None: it has none."""
    is_lost: bool = False


class Walk:
    """One walk; `run` raises AssertionError for the first promise that is not kept."""

    weights: dict[str, float]
    """Which steps there are, and how often each is taken."""

    def __init__(self, seed, home):
        self.choice = random.Random(seed)
        self.home = home
        self.faults = 0
        self.counts = Counter()
        self.steps = deque(maxlen=REMEMBERED_STEPS)
        self.pool = ThreadPoolExecutor(thread_name_prefix="walk")
        self.cluster = None
        self.ranks: list[Rank] = []
        self.generation = 0

    # --- the walk ---

    def run(self, faults):
        """Walk until so many faults have happened."""
        self.start()
        while self.faults < faults:
            name = self.choice.choices(list(self.weights), self.weights.values())[0]
            self.steps.append(name)
            self.counts[name] += 1
            start_s = time.monotonic()
            getattr(self, name)()
            self.check()
            self.steps[-1] += f" ({time.monotonic() - start_s:.2f} s)"
        self.cluster.stop()
        self.home.assert_nothing_left(within_s=3)

    def close(self):
        """End what is still there, after a failure."""
        if self.cluster is not None:
            self.cluster.stop()
        self.pool.shutdown(wait=False)

    def start(self):
        """Begin with a new cluster."""
        self.cluster = Cluster.start(spec=describe("localhost", "127.0.0.1"))
        self.home.remember(self.cluster)
        self.arm()
        self.ranks = [Rank(engine.pid) for engine in self.cluster.topology().engines]
        self.generation = 0

    def arm(self):
        assert self.cluster.run(f"print('armed')\n{ARM}", is_setup=True).ok

    def in_time(self, call, *args, within_s=ANSWER_WITHIN_S, **options):
        """Give the answer, which must come in time."""
        try:
            return self.pool.submit(call, *args, **options).result(within_s)
        except FutureTimeout as error:
            what = getattr(call, "__name__", call)
            raise AssertionError(f"{what}: no answer within {within_s:g} s") from error

    def cell(self, code, **options):
        """Run a cell."""
        return self.in_time(self.cluster.run, code, **options)

    def note(self, text):
        """Add to what is told of this step."""
        self.steps[-1] += f" {text}"

    # --- what must be true between two steps ---

    def check(self):
        """Compare the cluster with the model; heal it now and then."""
        if any(rank.is_lost for rank in self.ranks):
            self.check_refusal()
            self.check_others()
            if len(self.present) > 1 and self.choice.random() < 0.03:
                self.shrink_now()
            else:
                self.heal()
        topology = self.cluster.topology()
        assert topology.state == "ready", topology.state
        assert [engine.pid for engine in topology.engines] == [rank.pid for rank in self.ranks]
        assert topology.generation >= self.generation, "a generation went backwards"
        self.generation = topology.generation
        size = len(self.ranks)
        code = "repr(globals().get('kept')), int(comm.all_reduce(rank + 1)), world_size"
        result = self.cell(code)
        expected = [
            repr((repr(None) if rank.kept is None else rank.kept, size * (size + 1) // 2, size))
            for rank in self.ranks
        ]
        assert [rank.value_repr for rank in result] == expected, describe_ends(result)

    @property
    def present(self):
        """Ranks that are there."""
        return [number for number, rank in enumerate(self.ranks) if not rank.is_lost]

    def check_refusal(self):
        """A cell for all is refused, naming the lost."""
        with pytest.raises(CellRefused, match="%dist_heal") as refused:
            self.cell("1")
        lost = [number for number, rank in enumerate(self.ranks) if rank.is_lost]
        assert name_ranks(lost) in str(refused.value)

    def check_others(self):
        """Those that are there have what they had."""
        if not self.present:
            return
        result = self.cell("os.getpid(), repr(globals().get('kept'))", ranks=self.present)
        expected = [
            repr((self.ranks[number].pid, self.ranks[number].kept or repr(None)))
            for number in self.present
        ]
        assert [rank.value_repr for rank in result] == expected, describe_ends(result)

    def heal(self):
        """Replace what is lost; the new ranks have nothing."""
        lost = {number for number, rank in enumerate(self.ranks) if rank.is_lost}
        healed = self.in_time(self.cluster.heal, within_s=2 * ANSWER_WITHIN_S)
        assert set(healed.replaced) == lost, healed
        assert not healed.problems, healed
        engines = self.cluster.topology().engines
        for number in lost:
            assert engines[number].pid != self.ranks[number].pid
            self.ranks[number] = Rank(engines[number].pid)

    def shrink_now(self):
        """Go on with fewer ranks, and begin again when there are too few."""
        self.note("shrunk")
        shrunken = self.in_time(self.cluster.shrink)
        self.ranks = [rank for rank in self.ranks if not rank.is_lost]
        assert shrunken.world_size == len(self.ranks)
        if len(self.ranks) < FEWEST_RANKS:
            self.cluster.stop()
            self.home.assert_nothing_left(within_s=3)
            self.start()


def describe_ends(result):
    """How a cell ended on each rank."""
    return [f"{rank.rank}: {rank.status} {rank.value_repr} {rank.error}" for rank in result]
