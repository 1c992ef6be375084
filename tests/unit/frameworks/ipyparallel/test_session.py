"""Whatever a task says, its client gets it."""

import pytest
import zmq
from hypothesis import given, settings

pytest.importorskip("jupyter_client")

from jupyter_dist.frameworks.ipyparallel.session import Speech
from tests.rubbish import BUNDLES, RUBBISH

PLACE = {"key": "k", "signature_scheme": "hmac-sha256", "pack": "json", "unpack": "json"}


class Socket:
    """Keeps what is sent."""

    socket_type = zmq.DEALER

    def __init__(self):
        self.sent = []

    def send_multipart(self, frames, **_options):
        self.sent.append([bytes(frame) for frame in frames])


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def say(content):
    socket = Socket()
    speech = Speech(PLACE, 0)
    speech.say(socket, "display_data", content, metadata={"a": content})
    (frames,) = socket.sent
    return frames


@pytest.mark.filterwarnings("ignore:Message serialization failed")
@given(BUNDLES | RUBBISH)
@settings(max_examples=60, deadline=None)
def test_any_content_leaves_as_a_message(value):
    for frame in say({"data": value}):
        frame.decode()


@pytest.mark.parametrize("levels", [10, 900, 100_000])
def test_so_does_what_is_nested_without_end(levels):
    assert say({"data": deep(levels)})
