"""A cluster for hostile programs; each leaves it as it was, or ends its own rank only."""

import psutil
import pytest

from tests.patience import within
from tests.processes.conftest import (  # noqa: F401  (a fixture of these tests, too)
    SharedCluster,
    in_background,
)
from tests.processes.leftovers import (
    agents_of,
    coordinator_of,
    is_alive,
    placed_files,
    wait_until,
    zygotes_of,
)
from tests.processes.listener import Listener

VICTIM = 1
QUIET_WITHIN_S = 3.0


class Scene:
    """Two ranks, what they keep, and one hostile program after the other on the second of them."""

    def __init__(self, root):
        self._shared = SharedCluster(root, "localhost:2", name="hostile")
        self._remember()

    @property
    def cluster(self):
        """The cluster of these tests."""
        return self._shared.cluster

    def close(self):
        """Stop it; nothing may be left."""
        self._shared.close()

    def restart(self):
        """Begin with a new cluster where a test has spoilt this one."""
        self._shared.close()
        self._shared.restart()
        self._remember()

    def _remember(self):
        result = self.cluster.run("import os\nkept = ['kept', rank, os.getpid()]\nos.getpid()")
        assert result.ok, result
        self.pids = [int(rank.value_repr) for rank in result]
        self._known = {process.pid for process in self._shared.processes()}

    def run(self, deed, call):
        """Run a cell on the victim, through `call`; press ■ where it would never end."""
        listener = Listener()
        running = call(self.cluster.run, deed.code, ranks=VICTIM, watcher=listener)
        if deed.is_endless:
            listener.wait_for("here", ranks=[VICTIM])
            self.cluster.interrupt()
        return running.result(deed.within_s).rank(VICTIM)

    def undo(self, deed):
        """Do what a person would do to work on: put back what was replaced, or heal."""
        if deed.is_beyond_repair:
            (rank,) = self.cluster.run("1", ranks=VICTIM)
            assert rank.status == "raised"
            return self.heal(VICTIM)
        if deed.undo:
            result = self.cluster.run(deed.undo, ranks=VICTIM)
            assert result.ok, result[0].error
        if deed.status == "lost":
            self.heal()
        return None

    def heal(self, ranks=None):
        """Replace the victim, and only it."""
        with within(5):
            healed = self.cluster.heal(ranks)
        assert set(healed.replaced) == {VICTIM}
        others = [rank for rank in range(len(self.pids)) if rank != VICTIM]
        assert [self._pid(rank) for rank in others] == [self.pids[rank] for rank in others]
        self._give_again()

    def _give_again(self):
        """Let the victim keep something again, whose own program has removed it."""
        (rank,) = self.cluster.run("import os\nkept = ['kept', rank, os.getpid()]", ranks=VICTIM)
        assert rank.status == "ok", rank.error
        self.pids[VICTIM] = self._pid(VICTIM)
        self._known |= set(self.pids)

    def _pid(self, rank):
        return self.cluster.topology().engines[rank].pid

    def assert_as_before(self, *, keeps_state=True):
        """Every rank has its process and its state, computes with the others, and nothing is left."""
        if not keeps_state:
            self._give_again()
        result = self.cluster.run(
            "import os\nprint('said', rank)\n(kept, int(comm.all_reduce(1)), rank)"
        )
        assert [rank.status for rank in result] == ["ok"] * 2, [rank.error for rank in result]
        expected = [repr((["kept", rank, pid], 2, rank)) for rank, pid in enumerate(self.pids)]
        assert [rank.value_repr for rank in result] == expected
        assert [f"said {rank.rank}\n" in rank.stdout for rank in result] == [True] * 2
        wait_until(lambda: not self._strangers(), QUIET_WITHIN_S, "no process but the cluster's")
        assert not placed_files(self.cluster)

    def _strangers(self):
        ours = [coordinator_of(self.cluster), *agents_of(self.cluster), *zygotes_of(self.cluster)]
        known = {process.pid for process in ours} | set(self.pids) | self._known
        return [
            process.pid
            for engine in self.pids
            for process in psutil.Process(engine).children(recursive=True)
            if process.pid not in known and is_alive(process)
        ]


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """The cluster of all tests of a module."""
    stage = Scene(tmp_path_factory.mktemp("hostile"))
    yield stage
    stage.close()


@pytest.fixture
def scene(stage, request):
    """The cluster, for one test; a new one where the test before has failed."""
    failed = request.session.testsfailed
    yield stage
    if request.session.testsfailed > failed:
        stage.restart()
