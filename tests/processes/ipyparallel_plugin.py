"""A plugin for pytest that has ipyparallel's own tests run on the ranks of a cluster of ours.

Its tests start a controller and engines of theirs, with functions that are replaced here before
they are imported. Where they want more engines, lost ranks are healed; there are four of them.
What became of each test goes to the file that JUPYTER_DIST_OUTCOMES names.
"""

import json
import os
from pathlib import Path

import ipyparallel.tests as theirs
import pytest
from IPython.paths import get_ipython_dir

from jupyter_dist import Cluster

RANKS = 4
OUTCOMES = {}


class Ranks:
    """The cluster, while a module of theirs runs."""

    cluster = None


def setup():
    """Start the cluster instead of a controller."""
    theirs.error.RemoteError = theirs.RemoteErrorWithTB
    Ranks.cluster = Cluster.start(f"localhost:{RANKS}", timeout_s=60.0)
    # Some of their tests connect a second client, with what a controller has written there.
    folder = Path(get_ipython_dir(), "profile_iptest", "security")
    folder.mkdir(parents=True)
    client = Ranks.cluster.ipyparallel()
    (folder / "ipcontroller-client.json").write_text(json.dumps(client.connection_info))
    client.close()


def teardown():
    """Stop the cluster."""
    Ranks.cluster.stop()


def add_engines(n=1, profile="iptest", total=False):
    """Have all ranks there; nobody gets more of them."""
    if "lost" in Ranks.cluster.status().ranks.values():
        Ranks.cluster.heal()
        Ranks.cluster.ipyparallel().close()  # comes back when all are registered
    return []


def connect_client(self):
    """Give a client of the ranks."""
    client = Ranks.cluster.ipyparallel()
    client.wait = lambda *arguments, **options: self.client_wait(client, *arguments, **options)
    return client


theirs.setup, theirs.teardown, theirs.add_engines = setup, teardown, add_engines


def pytest_collection_finish(session):
    """Replace what their test cases connect with."""
    from ipyparallel.tests.clienttest import ClusterTestCase

    ClusterTestCase.connect_client = connect_client


@pytest.hookimpl
def pytest_runtest_logreport(report):
    """Note what became of a test, the worst of its three phases."""
    name = report.nodeid.rpartition("/")[2]
    if report.when == "call" or report.outcome != "passed":
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        why = str(report.longrepr) if report.longrepr is not None else ""
        if OUTCOMES.get(name, ["passed"])[0] == "passed":
            OUTCOMES[name] = [outcome, why[-3000:]]


def pytest_sessionfinish(session):
    """Tell what became of all."""
    Path(os.environ["JUPYTER_DIST_OUTCOMES"]).write_text(json.dumps(OUTCOMES))
