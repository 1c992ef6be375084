import pytest

from jupyter_dist.errors import FrameworkError, UsageError


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
        if timeout_s == 1:
            raise FrameworkError("there is no ipyparallel controller: rank 2 has not joined")
        cluster.timeouts.append(timeout_s)
        cluster.clients.append(ClientFake(cluster.ids))
        return cluster.clients[-1]

    cluster.ipyparallel = ipyparallel
    cluster.leave_ipyparallel = lambda: cluster.was_running
    return cluster


def test_px_runs_on_all_ranks_by_default(run, cluster):
    said = run("%dist_ipyparallel").text
    assert cluster.clients[0].activated == ["all"]
    assert cluster.timeouts == [30.0]
    assert "ranks 0-3 are engines of ipyparallel since 0.0 s; %px runs on all of them" in said


def test_px_runs_on_the_ranks_that_are_named(run, cluster):
    said = run("%dist_ipyparallel --ranks 0,2-3 --timeout 1m").text
    assert cluster.clients[0].activated == [[0, 2, 3]]
    assert cluster.timeouts == [60.0]
    assert "%px runs on ranks 0,2-3" in said


def test_ranks_that_are_lost_are_named_and_the_client_that_runs_stays(run, cluster):
    run("%dist_ipyparallel")
    cluster.ids = [0, 3]
    error = run("%dist_ipyparallel --ranks 0-2").error_in_exec
    assert isinstance(error, UsageError)
    assert str(error) == (
        "ranks 1-2 are lost, and no engine of ipyparallel. %dist_heal replaces them; "
        "ranks 0,3 can be named."
    )
    assert [client.has_left for client in cluster.clients] == [False, True]
    assert cluster.clients[1].activated == []


def test_the_client_goes_where_it_is_wanted(run, cluster, shell):
    assert run("%dist_ipyparallel -o client").success
    assert shell.user_ns["client"] is cluster.clients[0]


def test_a_second_time_closes_the_client_before(run, cluster):
    run("%dist_ipyparallel")
    run("%dist_ipyparallel")
    assert [client.is_closed for client in cluster.clients] == [True, False]


def test_stop_ends_the_controller_and_closes_the_client(run, cluster):
    run("%dist_ipyparallel")
    assert "the ipyparallel controller has ended" in run("%dist_ipyparallel --stop").text
    assert cluster.clients[0].is_closed
    cluster.was_running = False
    assert "no controller ran" in run("%dist_ipyparallel --stop").text


@pytest.mark.parametrize("more", ["--ranks 0", "-o client"])
def test_stop_goes_alone(run, cluster, more):
    assert "--stop goes alone" in str(run(f"%dist_ipyparallel --stop {more}").error_in_exec)
    assert cluster.clients == []


def test_why_there_is_no_controller_is_one_line(run, cluster):
    result = run("%dist_ipyparallel --timeout 1")
    assert isinstance(result.error_in_exec, FrameworkError)
    assert "rank 2 has not joined" in str(result.error_in_exec)


def test_ranks_that_are_none_are_refused(run, cluster):
    assert "0-3" in str(run("%dist_ipyparallel --ranks 7").error_in_exec)
    assert cluster.clients == []
