"""A relay between ranks and a coordinator's socket: real sockets, moved on by hand."""

import pytest
import zmq

from jupyter_dist.control.keys import make_cluster_keys
from jupyter_dist.control.relay.engine_dealer import RelayedDealer
from jupyter_dist.control.relay.engine_router import EngineRouter
from jupyter_dist.control.relay.envelope import new_relay
from jupyter_dist.control.relay.relay import Home, Relay, listen_at
from jupyter_dist.control.router import Doorkeeper
from tests.patience import wait_until

WITHIN_S = 10.0


class Host:
    """A host with ranks and their relay, and the coordinator's end."""

    def __init__(self, context, folder):
        self.context, self.path = context, f"{folder}/relay"
        self.keys = make_cluster_keys()
        self.doorkeeper = Doorkeeper(context)
        self.doorkeeper.admit("engines", self.keys.engine.public)
        self.router = EngineRouter(context, "engines", self.keys.server)
        self.address = f"tcp://127.0.0.1:{self.router.bind('127.0.0.1')}"
        self.name = new_relay()
        self.relay = self.start_relay(self.name)
        self.ranks = []
        self.heard = []
        """What the coordinator has heard: from whom, and what."""

    def start_relay(self, name):
        """A relay, with a context of its own so that it can end as a process does."""
        home = Home(self.address, self.keys.for_engine(), name.encode())
        self.relay_context = zmq.Context()
        return Relay(self.relay_context, listen_at(self.path), home)

    def rank(self, name):
        """A rank that was given to the relay."""
        self.router.give_to_relay(self.name, [name])
        home = self.address, self.keys.for_engine(), name.encode(), self.context
        self.ranks.append(RelayedDealer(*home, self.path))
        return self.ranks[-1]

    def move(self):
        """Let relay and coordinator do what is to be done."""
        if self.relay is not None:
            self.relay.carry(self.relay.wait(0))
        self.heard += [(each.identity.decode(), each.message) for each in self.router.receive()]

    def move_until(self, is_reached, *ranks):
        """Do that, and let ranks look after their connections, until something is reached."""

        def look():
            self.move()
            for rank in ranks:
                rank.silence_s()
            return is_reached()

        wait_until(look, WITHIN_S, "what was said has come")

    def hear(self, count, *ranks):
        """Return so many messages that have come to the coordinator."""
        self.move_until(lambda: len(self.heard) >= count, *ranks)
        heard, self.heard = self.heard[:count], self.heard[count:]
        return heard

    def end_relay(self):
        """Let the relay end, as one that is killed."""
        self.relay.close()
        self.relay = None
        self.relay_context.destroy(0)


@pytest.fixture
def host(tmp_path):
    """The host of a test."""
    context = zmq.Context()
    host = Host(context, tmp_path)
    yield host
    if host.relay is not None:
        host.end_relay()
    for rank in host.ranks:
        rank.close(0)
    host.router.close()
    host.doorkeeper.close()
    context.destroy(0)
