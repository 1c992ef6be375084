"""A cluster that is known here already, under the name of a machine or another one; no ssh is run."""

import pytest
from fakes.connections import known

from jupyter_dist.cluster.connection import remote
from jupyter_dist.cluster.connection.remote import reach_cluster
from jupyter_dist.errors import UsageError


@pytest.fixture
def know(monkeypatch):
    """Have this machine, which is `login`, know the cluster `demo` on this host; empty: on itself."""
    monkeypatch.setattr(remote, "is_here", lambda address: address == "login")

    def know(host):
        info = known(coordinator_host=host)
        monkeypatch.setattr(remote, "find_connection", {"demo": info}.get)

    return know


@pytest.mark.parametrize(
    ("known_on", "given"),
    [("far", "far"), ("far", "alice@far"), ("", "login"), ("", "here"), ("far", "here")],
)
def test_a_cluster_that_is_known_here_is_taken(know, known_on, given):
    know(known_on)
    assert reach_cluster("demo", given, None, None) == "demo"


@pytest.mark.parametrize(
    ("known_on", "where"), [("far", "on far"), ("", "on this machine")], ids=["far", "here"]
)
def test_where_the_cluster_is_that_has_this_name_is_told(know, known_on, where):
    know(known_on)
    with pytest.raises(UsageError, match=f"{where}, not on far.example.org") as caught:
        reach_cluster("demo", "far.example.org", None, None)
    assert "%dist_attach demo" in str(caught.value)
