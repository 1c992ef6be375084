"""Messages of the Debug Adapter Protocol on a stream."""

import pytest

from jupyter_dist.errors import WireError
from jupyter_dist.protocol.dap import MessageReader, frame


def test_messages_come_whole_however_they_were_cut():
    stream = frame(b'{"a":1}') + frame(b"") + b"Content-Type: x\r\n" + frame("ä".encode())
    for size in (1, 3, 1000):
        reader, found = MessageReader(), []
        for at in range(0, len(stream), size):
            found += reader.take(stream[at : at + size])
        assert found == [b'{"a":1}', b"", "ä".encode()]


@pytest.mark.parametrize(
    "stream",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"Content-Length: -1\r\n\r\n",
        b"Content-Length: 11\r\n\r\n",
        b"x" * 5000,
    ],
)
def test_other_protocols_and_what_is_too_large_are_refused(stream):
    with pytest.raises(WireError):
        list(MessageReader(10).take(stream))
