"""A real Jupyter Server, its pages, and clusters for them to see."""

import pytest

from jupyter_dist import Cluster
from tests.processes.conftest import ClusterFactory
from tests.processes.driver import Driver
from tests.processes.leftovers import Home
from tests.processes.web import Browser, Feed, JupyterServer


class Adopting(ClusterFactory):
    """Ends also clusters that someone else has started."""

    def __init__(self, home):
        super().__init__(home)
        self._adopted = []

    def adopt(self, name):
        """Stop the cluster with this name in the end."""
        self._adopted.append(name)

    def close(self):
        """Stop all."""
        super().close()
        for name in set(self._adopted) & set(Cluster.running()):
            cluster = Cluster.visit(name)
            self._home.remember(cluster)
            cluster.stop()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Directories of this module's own, in which nothing may be left."""
    root = tmp_path_factory.mktemp("web")
    home = Home(root)
    with pytest.MonkeyPatch.context() as monkeypatch:
        home.enter(monkeypatch)
        yield home
        home.assert_nothing_left()


@pytest.fixture(scope="module")
def server(place, tmp_path_factory):
    """The Jupyter Server of this module; one takes seconds to start."""
    server = JupyterServer(tmp_path_factory.mktemp("server"))
    yield server
    server.end()


@pytest.fixture
def serve(place, tmp_path):
    """Start Jupyter Servers of a test's own."""
    servers = []

    def start(base_url="/"):
        servers.append(JupyterServer(tmp_path / f"server-{len(servers)}", base_url))
        return servers[-1]

    yield start
    for server in servers:
        server.end()


@pytest.fixture
def start(place):
    """Start clusters that end with the test."""
    factory = Adopting(place)
    yield factory
    factory.close()
    assert Cluster.running() == []


@pytest.fixture
def browser(server):
    """Someone who has logged in."""
    return Browser(server)


@pytest.fixture
def feed(browser):
    """Open pages; all are closed in the end."""
    feeds = []

    def open_feed(follow=None, rank=None, by=browser):
        feeds.append(Feed(by, follow, rank))
        return feeds[-1]

    yield open_feed
    for each in feeds:
        each.close()


@pytest.fixture
def driver(place):
    """Another process that drives clusters, as a notebook does."""
    driver = Driver()
    yield driver
    driver.close()


@pytest.fixture
def elsewhere(start, driver):
    """A cluster that another process drives; its name. It ends with the test."""

    def begin(hosts="localhost:2", name="kept", **options):
        options = {"keep_s": 60.0, **options}  # a program's cluster would end with it
        said = driver.do(f"cluster = Cluster.start({hosts!r}, name={name!r}, **{options!r})")
        assert said == "ok", said
        start.adopt(name)
        return name

    return begin
