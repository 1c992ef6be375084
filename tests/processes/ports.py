"""Ports for what a test has to be told a port of before it listens."""

import random
import socket
from contextlib import suppress


def free_port():
    """Find a port that the system gives to nobody who asks for any: others start clusters too."""
    while True:
        port = random.randrange(20_000, 27_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
