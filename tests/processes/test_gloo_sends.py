"""Waits for sends that gloo has lost from sight, in the libraries that people have installed."""

import importlib.util
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from jupyter_dist.frameworks import gloo_sends
from jupyter_dist.frameworks.gloo_sends import (
    JAX_LIBRARY,
    TORCH_LIBRARY,
    end_lost_sends,
    ending_lost_sends,
    find_symbols,
)

from .leftovers import wait_until

OLDER_JAX = os.environ.get("JUPYTER_DIST_OLDER_JAX", "")
NAMES = (gloo_sends._BUFFER, gloo_sends._END_WAIT)
LARGE = 10_000_000
"""So many numbers do not fit into the buffers of a connection."""


def jaxlib_of(folder):
    return str(Path(folder) / "jaxlib" / JAX_LIBRARY)


@pytest.fixture
def pair():
    """Two members of a group of torch in this process; both wait for nobody in the end."""
    pytest.importorskip("torch")
    import torch.distributed as dist

    store = dist.PrefixStore("pair", dist.HashStore())

    def make(rank):
        return dist.ProcessGroupGloo(store, rank, 2, timedelta(seconds=60))

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(make, range(2)))


@pytest.fixture
def wait_for_send(pair):
    """Begin to wait for a send that nobody receives; gives the thread and what it waits for."""
    import torch

    def begin():
        work = pair[0].send([torch.ones(LARGE)], 1, 0)
        thread = threading.Thread(target=work.wait, daemon=True)
        thread.start()
        return thread

    return begin


def test_a_wait_for_a_send_is_ended_in_its_own_library_only(wait_for_send):
    waiting = wait_for_send()
    wait_until(lambda: asleep_in_gloo() == 1, 10, "the thread waits")
    assert end_lost_sends(JAX_LIBRARY) == 0
    assert waiting.is_alive()
    assert end_lost_sends(TORCH_LIBRARY) == 1
    waiting.join(10)
    assert not waiting.is_alive()
    assert end_lost_sends(TORCH_LIBRARY) == 0


def test_waits_within_a_block_are_ended_though_they_begin_after_it(wait_for_send, monkeypatch):
    monkeypatch.setattr(gloo_sends, "_AGAIN_S", 0.05)
    with ending_lost_sends(TORCH_LIBRARY):
        waiting = wait_for_send()
        waiting.join(30)  # it would wait for a minute
    assert not waiting.is_alive()
    assert not [each for each in threading.enumerate() if each.name == "gloo-sends"]


def test_a_wait_for_a_message_is_left_alone(pair):
    import torch

    received = torch.zeros(3)
    work = pair[1].recv([received], 0, 0)
    waiting = threading.Thread(target=work.wait, daemon=True)
    waiting.start()
    wait_until(lambda: asleep_in_gloo() == 1, 10, "the thread waits")
    end_lost_sends(TORCH_LIBRARY)
    waiting.join(0.3)
    assert waiting.is_alive()
    pair[0].send([torch.ones(3)], 1, 0).wait()
    waiting.join(10)
    assert received.tolist() == [1.0] * 3


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(Path(spec.origin).parents[1], id="installed")
        for spec in [importlib.util.find_spec("jaxlib")]
        if spec is not None
    ]
    + [pytest.param(OLDER_JAX, id="older")] * bool(OLDER_JAX),
)
def test_the_libraries_of_jax_have_what_is_needed(folder):
    buffer_class, end_wait = find_symbols(jaxlib_of(folder), NAMES)
    assert buffer_class > 0
    assert end_wait > 0
    assert buffer_class != end_wait


def test_a_library_without_it_is_told_apart(tmp_path):
    import _ctypes

    assert find_symbols(_ctypes.__file__, NAMES) is None
    assert end_lost_sends("no_such_library.so") == 0


def asleep_in_gloo():
    """Count threads that sleep on an object of gloo's."""
    loaded = gloo_sends._find_loaded(TORCH_LIBRARY)
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        return sum(
            gloo_sends._find_buffer(memory.fileno(), address, loaded[0]) != 0
            for address in gloo_sends._list_sleeping()
        )
