"""Which threads of libzmq let go on what runs."""

import os
import sys
from pathlib import Path

import pytest
import zmq

from jupyter_dist.control.context import new_context

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="others have no such policy")


def policies(context):
    """That of the network thread, which takes it before its name and what is sent."""
    before = set(os.listdir("/proc/self/task"))
    with context, context.socket(zmq.PAIR) as one, context.socket(zmq.PAIR) as other:
        port = one.bind_to_random_port("tcp://127.0.0.1")
        other.connect(f"tcp://127.0.0.1:{port}")
        other.send(b"")
        assert one.poll(10_000)
        own = {
            thread: Path(f"/proc/self/task/{thread}/comm").read_text(encoding="utf-8")
            for thread in set(os.listdir("/proc/self/task")) - before
        }
        return {os.sched_getscheduler(int(t)) for t, name in own.items() if "IO" in name}


@pytest.mark.parametrize(
    ("is_crowded", "policy"), [(False, os.SCHED_OTHER), (True, os.SCHED_BATCH)]
)
def test_threads_wait_for_a_core_on_a_crowded_machine_only(is_crowded, policy):
    assert policies(new_context(is_crowded=is_crowded)) == {policy}
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_where_a_sandbox_forbids_the_policy_threads_keep_theirs(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert policies(new_context(is_crowded=True)) == {os.SCHED_OTHER}


def test_a_policy_that_was_chosen_for_the_process_stays():
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        assert policies(new_context()) == {os.SCHED_BATCH}
        assert os.sched_getscheduler(0) == os.SCHED_BATCH
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def test_it_stays_on_a_crowded_machine_too():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    try:
        assert policies(new_context(is_crowded=True)) == {os.SCHED_IDLE}
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
