"""Whatever a task says, its client gets it."""

import pytest
import zmq
from hypothesis import given, settings

pytest.importorskip("jupyter_client")

from jupyter_dist.frameworks.ipyparallel.session import MessageSession
from tests.rubbish import BUNDLES, RUBBISH

LONE = "cut off: \ud83d"
"""Half of an emoji, which UTF-8 does not have."""
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


def say(content, **more):
    """Send a message, and give its frames."""
    socket = Socket()
    MessageSession(PLACE, 0).say(socket, "apply_reply", content, **more)
    (frames,) = socket.sent
    return frames


def pass_on(content, **more):
    """Send a message, and give what arrives."""
    frames = [zmq.Frame(frame) for frame in say(content, **more)]
    return MessageSession(PLACE, 3).understand(frames)[1]


@pytest.mark.filterwarnings("ignore:Message serialization failed")
@given(BUNDLES | RUBBISH)
@settings(max_examples=60)
def test_any_content_leaves_as_a_message(value):
    content = {"data": value}
    for frame in say(content, metadata={"a": content}):
        frame.decode()


@pytest.mark.parametrize("levels", [10, 900, 100_000])
def test_so_does_what_is_nested_without_end(levels):
    content = {"data": deep(levels)}
    assert say(content, metadata={"a": content})


def test_text_that_utf_8_does_not_have_is_sent_escaped():
    content = {"status": "error", "evalue": LONE, "traceback": [LONE], LONE: 1.5}
    parent = {"header": {"msg_id": "1", "label": LONE}}
    message = pass_on(content, parent=parent, metadata={"label": LONE, "status": "error"})
    escaped = "cut off: \\ud83d"
    assert message["content"] == {
        "status": "error",
        "evalue": escaped,
        "traceback": [escaped],
        escaped: 1.5,
    }
    assert message["metadata"]["label"] == escaped
    assert message["parent_header"]["msg_id"] == "1"


def test_what_is_no_json_is_sent_as_its_text():
    assert pass_on({"data": {"x": 1 + 2j, "y": (True, None)}})["content"] == {
        "data": {"x": "(1+2j)", "y": [True, None]}
    }
