import pytest

from jupyter_dist.errors import UsageError


class ClientFake:
    """Remembers what was done with it."""

    def __init__(self, ids):
        self.ids = ids
        self.activated = []
        self.is_closed = self.has_left = False

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()
        self.has_left = True

    def activate(self, targets):
        self.activated.append(targets)

    def close(self):
        self.is_closed = True


@pytest.fixture
def cluster(run, world, monkeypatch):
    """The notebook's cluster, which gives clients that only remember."""
    run("%dist_start")
    cluster = world.clusters["demo"]
    cluster.ids = [0, 1, 2, 3]
    cluster.clients, cluster.timeouts, cluster.was_running = [], [], True

    def ipyparallel(*, timeout_s):
        cluster.timeouts.append(timeout_s)
        cluster.clients.append(ClientFake(cluster.ids))
        return cluster.clients[-1]

    cluster.ipyparallel = ipyparallel
    cluster.leave_ipyparallel = lambda: cluster.was_running
    return cluster


def test_px_runs_on_all_ranks_by_default(run, cluster):
    assert run("%dist_ipyparallel").text.startswith("ranks 0-3 ")
    assert cluster.clients[0].activated == ["all"]
    assert cluster.timeouts == [30.0]


def test_px_runs_on_the_ranks_that_are_named(run, cluster):
    said = run("%dist_ipyparallel --ranks 0,2-3 --timeout 1m").text
    assert cluster.clients[0].activated == [[0, 2, 3]]
    assert cluster.timeouts == [60.0]
    assert said.endswith(" ranks 0,2-3\n")


def test_ranks_that_are_lost_are_named_and_the_client_that_runs_stays(run, cluster):
    run("%dist_ipyparallel")
    cluster.ids = [0, 3]
    error = run("%dist_ipyparallel --ranks 0-2").error_in_exec
    assert isinstance(error, UsageError)
    assert all(part in str(error) for part in ("ranks 1-2 are", "%dist_heal", "ranks 0,3 "))
    assert [client.has_left for client in cluster.clients] == [False, True]
    assert cluster.clients[1].activated == []


def test_the_client_goes_where_it_is_wanted_and_one_before_is_closed(run, cluster, shell):
    run("%dist_ipyparallel")
    assert run("%dist_ipyparallel -o client").success
    assert shell.user_ns["client"] is cluster.clients[1]
    assert [client.is_closed for client in cluster.clients] == [True, False]


def test_stop_ends_the_controller_and_closes_the_client(run, cluster):
    run("%dist_ipyparallel")
    ended = run("%dist_ipyparallel --stop").text
    assert cluster.clients[0].is_closed
    cluster.was_running = False
    assert run("%dist_ipyparallel --stop").text not in ("", ended)


@pytest.mark.parametrize("more", ["--ranks 0", "-o client"])
def test_stop_goes_alone(run, cluster, more):
    error = run(f"%dist_ipyparallel --stop {more}").error_in_exec
    assert isinstance(error, UsageError)
    assert "--stop" in str(error)
    assert cluster.clients == []


def test_ranks_that_are_none_are_refused(run, cluster):
    assert "0-3" in str(run("%dist_ipyparallel --ranks 7").error_in_exec)
    assert cluster.clients == []
