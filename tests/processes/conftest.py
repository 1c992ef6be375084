"""Real clusters in directories of their own; after each test nothing of them is left."""

import os
import threading

import pytest

from jupyter_dist import Cluster
from jupyter_dist.errors import ClusterInUse
from tests import patience
from tests.gpu_programs import first_contact, program  # noqa: F401  (fixtures)
from tests.patience import PatientFuture, wait_until

from .driver import Driver
from .leftovers import Home
from .people import kernel, spawn, terminal  # noqa: F401  (fixtures)

START_TIMEOUT_S = 90.0
"""Nothing is measured by it."""


class ClusterFactory:
    """Starts clusters in a home, and stops them all in the end."""

    def __init__(self, home):
        self._home = home
        self._clusters = []

    def __call__(self, hosts="localhost:2", **options):
        """Start a cluster; options as in `Cluster.start`."""
        cluster = Cluster.start(hosts, **{"timeout_s": START_TIMEOUT_S, **options})
        self._clusters.append(cluster)
        self._home.remember(cluster)
        return cluster

    def attach(self, name=None, **options):
        """Attach to a cluster, and stop it in the end; options as in `Cluster.attach`."""
        cluster = Cluster.attach(name, **options)
        self._clusters.append(cluster)
        self._home.remember(cluster)
        return cluster

    def close(self):
        """Stop all; harmless for those that are gone."""
        for cluster in self._clusters:
            self._home.processes()
            try:
                cluster.stop()
            except ClusterInUse:
                Cluster.visit(cluster.name).stop()
                cluster.detach()


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Directories of this test's own, in which nothing may be left."""
    home = Home(tmp_path)
    home.enter(monkeypatch)
    yield home
    home.assert_nothing_left()


@pytest.fixture
def start(home, request):
    """Start clusters that end with the test."""
    if "sweep" in request.fixturenames:  # after they have ended
        request.getfixturevalue("sweep")
    factory = ClusterFactory(home)
    yield factory
    factory.close()


@pytest.fixture
def sweep(home):
    """Remove in the end what killed processes have left."""
    yield
    home.sweep()


class SharedCluster:
    """One cluster for all tests of a module that do it no harm; four ranks if nothing is said."""

    def __init__(self, root, hosts="localhost:4", **options):
        self._home = Home(root)
        self._hosts, self._options = hosts, options
        self.restart()

    def restart(self):
        """Start it (again)."""
        with pytest.MonkeyPatch.context() as monkeypatch:
            self._home.enter(monkeypatch)
            self._factory = ClusterFactory(self._home)
            self.cluster = self._factory(self._hosts, **self._options)
        self._world_size = self.cluster.world_size

    def whole(self):
        """Give it with all its ranks: new ones in the place of those that tests have lost.

        It is started anew where it has stopped, become smaller or is busy.
        """
        topology = self.cluster.topology()
        states = [engine.state for engine in topology.engines]
        is_idle = topology.state == "ready" and {*states} <= {"idle", "lost"}
        if not is_idle or len(states) < self._world_size:
            self.close()
            self.restart()
        elif "lost" in states:
            self.cluster.heal()
        return self.cluster

    def enter(self, monkeypatch):
        """Have a test look for clusters where this one is."""
        self._home.enter(monkeypatch)

    @property
    def temp_dir(self):
        """Where its temporary files go."""
        return self._home.temp_dir

    def processes(self):
        """Everything that runs for it."""
        return self._home.processes()

    def close(self):
        """Stop it; nothing may be left."""
        self._factory.close()
        self._home.assert_nothing_left()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The cluster of this module."""
    shared = SharedCluster(tmp_path_factory.mktemp("four"))
    yield shared
    shared.close()


def unharmed(shared):
    """Give a cluster that all tests share; its ranks are idle before and after the test."""
    pids = [engine.pid for engine in shared.cluster.topology().engines]
    yield shared.cluster
    try:
        engines = shared.cluster.topology().engines
        assert [engine.pid for engine in engines] == pids, "this test cost ranks"
        wait_until(
            lambda: set(shared.cluster.status().ranks.values()) == {"idle"}, 3, "all ranks idle"
        )
    except AssertionError:
        shared.close()
        shared.restart()
        raise


@pytest.fixture
def four(shared):
    """Four ranks that are all idle before and after the test."""
    yield from unharmed(shared)


@pytest.fixture
def driver(home):
    """Another process that may drive a cluster, as a notebook does."""
    driver = Driver()
    yield driver
    driver.close()


HELD = "import os, time\n{first}\nwhile not os.path.exists({path!r}): time.sleep(0.05)\n{then}"


@pytest.fixture
def hold(tmp_path):
    """Code of a cell that runs until `hold.release()`."""

    class Hold:
        path = tmp_path / "go on"

        def __call__(self, first="print('here')", then="'done'"):
            return HELD.format(first=first, path=str(self.path), then=then)

        def release(self):
            self.path.touch()

    return Hold()


@pytest.fixture
def in_background():
    """Call something on another thread; gives its future."""

    def submit(call, *args, **kwargs):
        future = PatientFuture()

        def run():
            try:
                future.set_result(call(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001  (the future raises it again)
                future.set_exception(error)

        # A daemon: a test that fails while a cell hangs must not hang itself.
        threading.Thread(target=run, daemon=True).start()
        return future

    return submit


@pytest.fixture
def within():
    """Assert that a block of code ends within so many seconds of a machine that has time."""
    return patience.within


@pytest.fixture
def first_of_all(tmp_path, monkeypatch):
    """Have every interpreter that starts from now on run this code while it loads."""

    def have(code):
        folder = tmp_path / "first of all"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(code)
        paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))

    return have
