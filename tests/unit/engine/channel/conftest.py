from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import zmq

from jupyter_dist.control.keys import make_cluster_keys
from jupyter_dist.control.router import Doorkeeper, Router
from jupyter_dist.engine.channel.channel import Channel
from jupyter_dist.protocol.codec import from_engine
from jupyter_dist.protocol.messages import ObjectsStored


class Home:
    """The coordinator's end."""

    def __init__(self, context):
        keys = make_cluster_keys()
        self.doorkeeper = Doorkeeper(context)
        self.doorkeeper.admit("engines", keys.engine.public)
        self.router = Router(context, "engines", keys.server, from_engine(), survives_breaks=True)
        self.config = SimpleNamespace(
            info=SimpleNamespace(rank=0, local_world_size=1),
            engine="0",
            relay="",
            lost_after_s=10.0,
            coordinator_pid=0,
            engines_address=f"tcp://127.0.0.1:{self.router.bind('127.0.0.1')}",
            beats_address="tcp://127.0.0.1:9",  # where no one answers
            credentials=keys.for_engine(),
        )

    def receive(self, count=1):
        found = []
        while len(found) < count:
            assert self.router.pollable.poll(10_000)
            found += [received.message for received in self.router.receive()]
        return found

    def say(self, *messages):
        for message in messages:
            self.router.send(b"0", message)


@pytest.fixture
def home():
    context = zmq.Context()
    home = Home(context)
    yield home
    home.router.close()
    home.doorkeeper.close()
    context.destroy(0)


@pytest.fixture
def open_channel(home, handler):
    """Open a channel that is closed after the test."""
    context = zmq.Context()
    channel = Channel(home.config, handler)

    def open_now():
        channel.open(context)
        return channel

    yield open_now
    channel._dealer.close(0)
    channel.link_waker.close()
    channel._main_waker.close()
    context.term()


@pytest.fixture
def channel(home, open_channel):
    channel = open_channel()
    channel.answer(ObjectsStored(0, "hello", ""))
    assert home.receive() == [ObjectsStored(0, "hello", "")]
    return channel


@pytest.fixture
def handler():
    return Mock()
