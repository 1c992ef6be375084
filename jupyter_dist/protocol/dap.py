"""The Debug Adapter Protocol on a stream of bytes: JSON after a header with its length."""

from collections.abc import Iterator

from jupyter_dist.errors import WireError

MOST_BYTES = 64 << 20
"""Of one message."""
_MOST_HEADER_BYTES = 4096
_END = b"\r\n\r\n"


def frame(content: bytes) -> bytes:
    """Return one message as it goes over a stream."""
    return b"Content-Length: %d%b%b" % (len(content), _END, content)


class MessageReader:
    """Puts messages together from what a stream brings."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._rest = bytearray()
        self._length = -1

    def take(self, data: bytes) -> Iterator[bytes]:
        """Yield the JSON of each message that is whole. Raise WireError for other protocols."""
        self._rest += data
        while True:
            if self._length < 0 and not self._take_header():
                return
            if len(self._rest) < self._length:
                return
            content = bytes(self._rest[: self._length])
            del self._rest[: self._length]
            self._length = -1
            yield content

    def _take_header(self) -> bool:
        header, end, rest = bytes(self._rest).partition(_END) if self._has_header() else (b"",) * 3
        if not end:
            return False
        for line in header.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length" and value.strip().isdigit():
                self._length = int(value)
        if not 0 <= self._length <= self.most_bytes:
            raise WireError(f"this is no message of the Debug Adapter Protocol: {header[:80]!r}")
        self._rest = bytearray(rest)
        return True

    def _has_header(self) -> bool:
        at = self._rest.find(_END, 0, _MOST_HEADER_BYTES)
        if at < 0 and len(self._rest) > _MOST_HEADER_BYTES:
            start = bytes(self._rest[:80])
            raise WireError(f"this is no message of the Debug Adapter Protocol: {start!r}")
        return at >= 0
