"""A relay between ranks and a coordinator's socket: real sockets, moved on by hand."""

import pytest
import zmq

from jupyter_dist.control.heartbeat import HeartbeatMonitor
from jupyter_dist.control.keys import make_cluster_keys
from jupyter_dist.control.relay.doors import Home, open_doors
from jupyter_dist.control.relay.engine_dealer import RankHome, open_line
from jupyter_dist.control.relay.engine_router import EngineRouter
from jupyter_dist.control.relay.envelope import new_relay
from jupyter_dist.control.relay.relay import Relay
from jupyter_dist.control.router import Doorkeeper
from tests.patience import wait_until

WITHIN_S = 10.0


class Host:
    """A host with ranks and their relay, and the coordinator's end."""

    def __init__(self, context, folder):
        self.context, self.path = context, f"{folder}/relay"
        self.keys = make_cluster_keys()
        self.doorkeeper = Doorkeeper(context)
        for domain in ("engines", "beats"):
            self.doorkeeper.admit(domain, self.keys.engine.public)
        self.router = EngineRouter(context, "engines", self.keys.server)
        self.beats = HeartbeatMonitor(context, "beats", self.keys.server, self.router.relays)
        self.address, self.beats_address = (
            f"tcp://127.0.0.1:{each.bind('127.0.0.1')}" for each in (self.router, self.beats)
        )
        self.name = new_relay()
        self.relay = self.start_relay(self.name)
        self.ranks = []
        self.heard = []
        """What the coordinator has heard: from whom, and what."""

    def start_relay(self, name):
        """A relay, with a context of its own so that it can end as a process does."""
        proof = self.keys.for_engine()
        home = Home(self.address, self.beats_address, proof, name.encode())
        self.relay_context = zmq.Context()
        return Relay(self.relay_context, open_doors(self.path), home)

    def rank(self, name):
        """A rank that was given to the relay."""
        self.router.give_to_relay(self.name, [name])
        proof = self.keys.for_engine()
        home = RankHome(self.address, self.beats_address, proof, name.encode(), self.path)
        self.ranks.append(open_line(self.context, home))
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
    host.beats.close()
    host.doorkeeper.close()
    context.term()  # which ends the threads that answer beats
