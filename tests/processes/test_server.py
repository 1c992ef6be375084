"""Pages of a real Jupyter Server see clusters, and have them do things, beside any notebook."""

import pytest

from jupyter_dist import Cluster

from .conftest import ClusterFactory
from .driver import Driver
from .leftovers import Home
from .web import Browser, Feed, JupyterServer

pytestmark = pytest.mark.timeout(120)


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
    factory = ClusterFactory(place)
    yield factory
    factory.close()
    assert Cluster.running() == []


@pytest.fixture
def browser(server):
    """Somebody who has logged in."""
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


def test_clusters_are_listed_with_what_they_do(start, browser):
    assert browser.clusters() == {}
    start("localhost:2", name="first")
    row = browser.clusters()["first"]
    assert (row["state"], row["world_size"], row["busy"], row["lost"]) == ("ready", 2, 0, 0)
    assert row["hosts"] == ["localhost"]
    assert row["driver"].startswith("program ")


def test_a_page_is_told_the_list_at_once_and_what_it_follows(start, feed):
    start("localhost:2", name="first")
    page = feed()
    assert [row["name"] for row in page.wait_for("clusters")["clusters"]] == ["first"]
    page.follow("first", 1)
    seen = page.wait_for("topology")["topology"]
    assert [host["name"] for host in seen["hosts"]] == ["localhost"]
