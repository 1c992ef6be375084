"""A ZeroMQ context of our own, so that those of the user's program stay untouched."""

import os
import sys
from typing import Any

import zmq


def new_context(*, is_crowded: bool = False) -> "zmq.Context[Any]":
    """Make a context; raise RuntimeError when libzmq was built without CURVE.

    `is_crowded`: the machine has more ranks than cores. The network thread then has the policy
    SCHED_BATCH, so that a message does not make the kernel preempt a rank for it.
    """
    if not zmq.has("curve"):
        raise RuntimeError(
            "this pyzmq was built without CURVE encryption, which jupyter-dist needs. "
            "Install pyzmq from PyPI: pip install --force-reinstall pyzmq"
        )
    context = zmq.Context()
    # libzmq aborts the process if the kernel refuses, so it is tried on this thread first.
    if sys.platform == "linux" and is_crowded and _may_take(os.SCHED_BATCH):
        context.set(zmq.THREAD_SCHED_POLICY, os.SCHED_BATCH)
    return context


if sys.platform == "linux":

    def _may_take(policy: int) -> bool:
        """Return whether the kernel lets this thread change to the policy, as sandboxes may not."""
        if os.sched_getscheduler(0) != os.SCHED_OTHER:
            return False  # the user has chosen another one for this process
        try:
            os.sched_setscheduler(0, policy, os.sched_param(0))
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        except OSError:
            return False
        return True


def has_any_context() -> bool:
    """Return whether this process has the shared context, which must not be carried through a fork.

    A context of its own that was used shows as threads instead.
    """
    return zmq.Context._instance is not None  # noqa: SLF001  (there is no public question)
