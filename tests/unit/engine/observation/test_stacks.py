from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from jupyter_dist.engine.channel.channel import Channel
from jupyter_dist.engine.observation.stacks import read_stacks
from jupyter_dist.protocol.messages import ControllerLeft


@pytest.fixture
def channel():
    channel = Channel(SimpleNamespace(info=SimpleNamespace(rank=0)), Mock())
    yield channel
    channel.link_waker.close()
    channel._main_waker.close()


def test_what_a_rank_calls_between_cells_is_none_of_its_users_frames(channel):
    seen = []

    def send(*_message):
        with ThreadPoolExecutor(1) as other:
            seen.append(other.submit(read_stacks, lambda _file: "", str).result())

    channel._dealer = SimpleNamespace(send=send)
    channel.answer(ControllerLeft(0))
    assert seen[0].threads[0].frames == ()
