import re

import pytest

from jupyter_dist.cluster.from_workers import start_on_ipyparallel, start_on_workers
from jupyter_dist.errors import UsageError


def submit(worker, function):
    raise AssertionError("nobody is asked")


def begin(slots=0, **options):
    return start_on_workers(submit, [1], slots, None, options)


def test_a_start_may_take_a_minute_unless_it_is_told_otherwise():
    assert begin()._draft.timeout_s == 60.0
    assert begin(timeout_s=7.0)._draft.timeout_s == 7.0


def test_options_are_checked_before_anybody_is_asked():
    with pytest.raises(UsageError, match="timeout -1"):
        begin(timeout_s=-1)
    with pytest.raises(UsageError, match="communicator 'x' is unknown"):
        begin(comm="x")


@pytest.mark.parametrize(
    "option", ["python", "ssh", "tunnel", "install", "wheelhouse", "launcher", "nodes"]
)
def test_how_an_agent_gets_there_is_not_ours_to_choose(option):
    with pytest.raises(UsageError, match=f"^{option}: "):
        begin(**{option: "x"})


@pytest.mark.parametrize("slots", [-1, 4097, 1.5, "2", None])
def test_slots_are_a_number(slots):
    with pytest.raises(UsageError, match=re.escape(f"slots {slots!r} ")):
        begin(slots)


@pytest.mark.parametrize(
    ("given", "workers", "told"),
    [
        (None, [1], "submit None "),
        (submit, 3, "workers 3 "),
        (submit, [{}], "workers "),
        (submit, [], "no workers"),
    ],
)
def test_what_has_no_workers_is_refused(given, workers, told):
    with pytest.raises(UsageError, match=told):
        start_on_workers(given, workers, 0, None, {})


@pytest.mark.parametrize("client", [None, "demo", object()])
def test_something_else_than_a_client_is_refused(client):
    with pytest.raises(UsageError, match=re.escape(f"{client!r} ")):
        start_on_ipyparallel(client, 0, None, {})


def test_a_cluster_without_engines_says_how_to_wait_for_them():
    class Client:
        ids = ()

    with pytest.raises(UsageError, match="wait_for_engines"):
        start_on_ipyparallel(Client(), 0, None, {})
