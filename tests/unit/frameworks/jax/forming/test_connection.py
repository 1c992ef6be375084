"""JAX's client begins and ends where nothing can hang or abort."""

import threading
import time

import pytest

from jupyter_dist.errors import CollectiveTimeout, FrameworkError, PeerFailed
from jupyter_dist.frameworks.jax.forming import connection
from jupyter_dist.frameworks.jax.private.runtime import Client
from tests.patience import within

ARGUMENTS = {"coordinator_address": "10.0.0.1:7"}


class Relay:
    address = "127.0.0.1:9"

    def __init__(self, why_gone=""):
        self.why_gone = why_gone
        self.is_closed = False

    def close(self):
        self.is_closed = True


class Runtime:
    """Its `connect` does what it is told to; its client is taken out when it is given up."""

    def __init__(self, act):
        self._act = act
        self.is_taken = False
        self.client = None

    def connect(self, arguments, relay_address, on_client):
        assert (arguments, relay_address) == (ARGUMENTS, Relay.address)
        self._act()
        on_client("late")
        self.client = "late"

    def take_client(self):
        self.is_taken = True
        taken, self.client = self.client, None
        return taken


class Native:
    def __init__(self, act):
        self.shutdown = act


@pytest.fixture
def kept(monkeypatch):
    """What is kept for ever."""
    found = []
    monkeypatch.setattr(connection, "keep", found.extend)
    return found


@pytest.fixture
def stuck():
    """Something that does not end before the test does."""
    end = threading.Event()
    yield end.wait
    end.set()
    for thread in threading.enumerate():
        if thread.name == "jax-connect":
            thread.join(5)


def connect(runtime, relay, timeout_s=30.0, look_around=lambda: None):
    deadline_s = time.monotonic() + timeout_s
    connection.connect(runtime, relay, ARGUMENTS, deadline_s, look_around)


def test_a_connection_that_is_made_stays_in_jax(kept):
    runtime = Runtime(lambda: None)
    connect(runtime, Relay())
    assert not runtime.is_taken
    assert kept == []


def test_an_error_of_jax_is_raised_and_jax_is_as_before(kept):
    def fail():
        raise RuntimeError("no")

    runtime, relay = Runtime(fail), Relay()
    with pytest.raises(RuntimeError, match="no"):
        connect(runtime, relay)
    assert runtime.is_taken
    assert relay in kept


def test_who_waits_is_told_of_a_failed_rank(kept, stuck):
    def look_around():
        raise PeerFailed(2, "rank 2 is lost")

    runtime, relay = Runtime(stuck), Relay()
    with pytest.raises(PeerFailed, match="rank 2"):
        connect(runtime, relay, look_around=look_around)
    assert runtime.is_taken
    assert relay in kept, "the client inside still waits on it"
    assert not relay.is_closed


def test_a_service_that_lets_nobody_in_is_a_time_out(kept, stuck):
    with pytest.raises(CollectiveTimeout, match=r"10\.0\.0\.1:7 .* initialization_timeout"):
        connect(Runtime(stuck), Relay(), timeout_s=0.1)


def test_a_client_that_is_made_after_it_was_left_does_not_stay_in_jax(kept):
    go_on = threading.Event()
    late = Runtime(go_on.wait)
    with pytest.raises(CollectiveTimeout):
        connect(late, Relay(), timeout_s=0.1)
    threading.Timer(0.3, go_on.set).start()
    later = Runtime(lambda: None)
    connect(later, Relay())
    assert late.client is None, "the next call waits until the earlier one is through"
    assert "late" in kept
    assert later.client == "late"


def test_a_client_that_goes_into_jax_while_it_is_left_is_taken_out(kept, stuck, monkeypatch):
    """As JAX does: the client is made, then kept in its state, then it connects for ever."""
    runtime, is_made = Runtime(None), threading.Event()

    def connect_for_ever(_arguments, _address, on_client):
        on_client("stuck")
        is_made.set()
        time.sleep(0.1)
        runtime.client = "stuck"
        stuck()

    def look_around():
        assert is_made.wait(5)
        raise KeyboardInterrupt

    monkeypatch.setattr(runtime, "connect", connect_for_ever)
    with pytest.raises(KeyboardInterrupt):
        connect(runtime, Relay(), look_around=look_around)
    assert runtime.client is None
    assert "stuck" in kept
    with within(1):  # it is not waited for
        connect(Runtime(lambda: None), Relay())


def test_a_call_that_is_left_on_its_way_is_told_to_the_next_one(kept, stuck, monkeypatch):
    monkeypatch.setattr(connection, "_LEFT_TIMEOUT_S", 0.1)
    with pytest.raises(CollectiveTimeout):
        connect(Runtime(stuck), Relay(), timeout_s=0.1)
    with pytest.raises(FrameworkError, match="earlier call"):
        connect(Runtime(lambda: None), Relay())


def test_a_client_that_says_goodbye_is_done(kept):
    relay, said = Relay(), []
    connection.say_goodbye(Client(Native(lambda: said.append(1)), None), relay)
    assert said == [1]
    assert relay.is_closed
    assert kept == []


def test_a_client_whose_service_is_gone_or_silent_is_kept_for_ever(kept, stuck, monkeypatch):
    monkeypatch.setattr(connection, "_GOODBYE_TIMEOUT_S", 0.1)
    gone, silent = Relay("it was closed"), Relay()
    connection.say_goodbye(Client(Native(pytest.fail), None), gone)
    connection.say_goodbye(Client(Native(stuck), None), silent)
    assert gone in kept
    assert silent in kept
    assert not gone.is_closed
    assert not silent.is_closed


def test_a_goodbye_that_fails_keeps_the_client(kept):
    def fail():
        raise RuntimeError("the service has gone")

    relay = Relay()
    connection.say_goodbye(Client(Native(fail), None), relay)
    assert relay in kept


def test_who_waits_for_devices_is_told_of_a_failed_rank_and_what_waits_is_abandoned(
    kept, stuck, monkeypatch
):
    def look_around():
        raise PeerFailed(2, "rank 2 is lost")

    abandoned = []
    monkeypatch.setattr(connection, "make_backends", stuck)
    monkeypatch.setattr(connection, "abandon_backends", abandoned.append)
    runtime, relay = Runtime(lambda: None), Relay()
    with pytest.raises(PeerFailed, match="rank 2"):
        connection.find_devices(runtime, relay, time.monotonic() + 30, look_around)
    assert [thread.name for thread in abandoned] == ["jax-devices"]
    assert runtime.is_taken
    assert relay in kept
