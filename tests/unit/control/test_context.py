"""The scheduling policy of libzmq's threads."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zmq

from jupyter_dist.control.context import new_context

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="others have no such policy")


def policies(context):
    """Return that of the network thread, which has set it before it carries a message."""
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
    def choose_and_make():
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return policies(new_context(is_crowded=True)), os.sched_getscheduler(0)

    # In a thread that ends: without privileges no thread may leave this policy again.
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(choose_and_make).result() == ({os.SCHED_IDLE}, os.SCHED_IDLE)
