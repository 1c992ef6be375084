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


def has_any_context() -> bool:
    """Return whether this process has the shared context, which must not be carried through a fork.

    A context of its own that was used shows as threads instead.
    """
    return zmq.Context._instance is not None  # noqa: SLF001  (there is no public question)
