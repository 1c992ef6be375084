"""A ZeroMQ context of our own, so that those of the user's program stay untouched."""

from typing import Any

import zmq


def new_context() -> "zmq.Context[Any]":
    """Make a context; raises RuntimeError when libzmq was built without CURVE."""
    if not zmq.has("curve"):
        raise RuntimeError(
            "this pyzmq was built without CURVE encryption, which jupyter-dist needs. "
            "Install pyzmq from PyPI: pip install --force-reinstall pyzmq"
        )
    return zmq.Context()
