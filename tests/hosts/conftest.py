"""Hosts for tests: one lab for all of them, or labs of a test's own; and clusters on them.

Without root or the programs of a lab the tests skip and say why. Where CI runs as root they fail
instead, so that nobody believes they ran.
"""

import contextlib

import pytest

from tests.processes.conftest import in_background, within  # noqa: F401  (fixtures for these tests, too)
from tests.processes.leftovers import Home

from .clusters import GRACE_S, LabClusters, skip_for
from .lab import HostsLab, why_not

HOSTS = ("nodeA", "nodeB", "nodeC")


@pytest.fixture(scope="session")
def hosts_lab(tmp_path_factory):
    """Three hosts for all tests; a test takes `lab`."""
    skip_for(why_not())
    with HostsLab(HOSTS, tmp_path_factory.mktemp("hosts")) as lab:
        yield lab


@pytest.fixture
def lab(hosts_lab):
    """Three hosts as if new; after the test all is healed, and nothing may be left on them."""
    yield hosts_lab
    for host in HOSTS:
        hosts_lab.heal(host)
    try:
        hosts_lab.assert_nothing_left(GRACE_S)
    finally:
        for host in HOSTS:
            hosts_lab.remove_leftovers(host)
        hosts_lab.reset()


@pytest.fixture
def make_lab(tmp_path):
    """Build labs of this test's own: `make_lab("nodeA", "nodeB")`; they end with the test."""
    skip_for(why_not())
    with contextlib.ExitStack() as labs:

        def make(*names, **options):
            root = tmp_path / "-".join(names)
            return labs.enter_context(HostsLab(names, root, **options))

        yield make


@pytest.fixture
def home(lab, tmp_path, monkeypatch):
    """Directories of this test's own on this machine, in which nothing may be left."""
    home = Home(tmp_path)
    home.enter(monkeypatch)
    yield home
    home.assert_nothing_left(GRACE_S)


@pytest.fixture
def start(lab, home):
    """Start clusters on the hosts of the lab; they end with the test."""
    clusters = LabClusters(home, lab)
    yield clusters
    clusters.close()
