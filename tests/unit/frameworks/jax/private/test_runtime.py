"""The private parts of JAX, on modules that are made like them, and otherwise."""

import contextlib
import os
import sys
import threading
import types
from typing import ClassVar

import pytest

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.jax.forming.cluster_env import put_first
from jupyter_dist.frameworks.jax.private import runtime as private_runtime
from jupyter_dist.frameworks.jax.private.runtime import (
    PrivateRuntime,
    call_before_backends,
    provide_threads,
)
from jupyter_dist.model.hosts.rank import RankInfo

EXEMPT = "no_grpc_proxy"


class State:
    client = None
    service = None
    preemption_sync_manager = None
    process_id = 0
    num_processes = 1


class Native:
    """Remembers the clients that were asked for."""

    other = "native"

    def __init__(self, known="heartbeat_timeout: int, init_timeout: int"):
        self.made = []

        def get_distributed_runtime_client(address, node_id, **options):
            self.made.append((address, node_id, options, os.environ.get(EXEMPT)))
            return f"client {node_id}"

        get_distributed_runtime_client.__doc__ = known
        self.get_distributed_runtime_client = get_distributed_runtime_client


def make_module(native=None, **changes):
    """Give a module like jax._src.distributed."""
    module = types.ModuleType("jax._src.distributed")
    state = module.global_state = State()
    module._jax = native or Native()

    def initialize(coordinator_address=None, process_id=None, heartbeat_timeout=100):
        """JAX's own."""
        if process_id == 0:
            state.service = module._jax.get_distributed_runtime_service(coordinator_address)
        state.client = module._jax.get_distributed_runtime_client(
            coordinator_address, process_id, heartbeat_timeout=heartbeat_timeout
        )

    def shutdown():
        """JAX's own."""

    module.initialize, module.shutdown = initialize, shutdown
    for name, value in changes.items():
        setattr(module, name, value)
    return module


def initialize():
    """Ours."""


def shutdown():
    """Ours."""


def test_the_client_goes_through_the_relay_and_outlives_its_service(monkeypatch):
    monkeypatch.setenv("no_proxy", "example.org")
    monkeypatch.delenv(EXEMPT, raising=False)
    native = Native("heartbeat_timeout: int, recoverable: bool")
    module = make_module(native)
    runtime = PrivateRuntime(module)
    runtime.replace(initialize, shutdown)
    runtime.connect(
        {"coordinator_address": "a:1", "process_id": 0, "unknown": 1}, "127.0.0.1:9", print
    )
    ((address, node_id, options, exempt),) = native.made
    assert (address, node_id, exempt) == ("127.0.0.1:9", 0, "example.org,127.0.0.1")
    assert options["recoverable"] is True
    assert options["heartbeat_timeout"] > 1_000_000
    assert "init_timeout" not in options, "this version has none"
    assert EXEMPT not in os.environ
    assert module.global_state.client == "client 0"
    module.global_state.service.shutdown()
    assert module._jax.other == "native"


def test_taking_the_client_leaves_jax_as_it_was():
    runtime = PrivateRuntime(module := make_module())
    assert runtime.take_client() is None
    runtime.connect({"coordinator_address": "a:1", "process_id": 1}, "127.0.0.1:9", print)
    assert runtime.take_client().native == "client 1"
    assert module.global_state.client is None
    assert (module.global_state.process_id, module.global_state.num_processes) == (0, 1)


def test_ours_looks_like_theirs():
    module = make_module()
    theirs = module.initialize
    runtime = PrivateRuntime(module)
    runtime.replace(initialize, shutdown)
    assert module.initialize is not theirs
    assert module.initialize.__doc__ == theirs.__doc__
    assert module.initialize.__name__ == "initialize"
    with pytest.raises(TypeError, match=r"jax.distributed.initialize\(\) .*'nonsense'"):
        runtime.read((), {"nonsense": 1})
    assert runtime.read(("a:1",), {}) == {"coordinator_address": "a:1"}


@pytest.mark.parametrize("lacking", ["global_state", "initialize", "shutdown", "_jax"])
def test_a_version_that_is_made_otherwise_is_an_error_with_words(lacking):
    module = make_module()
    delattr(module, lacking)
    named = {"_jax": "get_distributed_runtime_client"}.get(lacking, lacking)
    with pytest.raises(FrameworkError, match=rf"\b{named}\b"):
        PrivateRuntime(module)


def test_this_cluster_is_found_first():
    clusters = types.ModuleType("jax._src.clusters")

    class ClusterEnv:
        _cluster_types: ClassVar[list] = ["slurm"]

        def __init_subclass__(cls):
            cls._cluster_types.append(cls)

    clusters.ClusterEnv = ClusterEnv
    put_first(clusters, lambda: RankInfo(2, 4, 0, 2, 1, "b"), lambda timeout_s: f"in {timeout_s}")
    ours, other = ClusterEnv._cluster_types
    assert other == "slurm"
    assert ours.is_env_present()
    assert (ours.get_process_count(), ours.get_process_id()) == (4, 2)
    assert ours.get_local_process_id() is None
    assert ours.get_coordinator_address(timeout_secs=5) == "in 5.0"
    assert ours.get_coordinator_address(5, override_coordinator_port="1") == "in 5.0"


@pytest.mark.parametrize("base", [None, type("ClusterEnv", (), {})])
def test_a_version_without_that_list_is_left_alone(base):
    clusters = types.ModuleType("jax._src.clusters")
    clusters.ClusterEnv = base
    put_first(clusters, lambda: None, lambda _: "")


def test_a_call_comes_before_backends_are_looked_for(monkeypatch):
    bridge = types.ModuleType("jax._src.xla_bridge")
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)  # JAX may be here in earnest
    bridge.backends_are_initialized = lambda: False
    bridge.backends = lambda: "found"
    calls = []
    call_before_backends(bridge, lambda: calls.append(1))
    assert bridge.backends() == "found"
    assert calls == [1]
    bare = types.ModuleType("jax._src.xla_bridge")
    call_before_backends(bare, lambda: calls.append(1))
    assert not hasattr(bare, "backends")


@pytest.mark.parametrize(
    ("wanted", "flags", "given", "found"),
    [
        (2, "", "1", "4"),
        (4, "", "nonsense", "8"),
        (4, "--xla_force_host_platform_device_count=2", "3", "8"),
        (-1, "--xla_a=1 --xla_force_host_platform_device_count=3", "2", "6"),
        (2, "", "9", "9"),
        (-1, "", "1", "1"),
        (1, "--xla_force_host_platform_device_count=3", "1", "1"),
    ],
)
def test_devices_of_one_process_have_the_threads_to_meet_those_of_others(
    monkeypatch, wanted, flags, given, found
):
    jax = types.ModuleType("jax")
    jax.config = types.SimpleNamespace(jax_num_cpu_devices=wanted)
    monkeypatch.setitem(sys.modules, "jax", jax)
    monkeypatch.setenv("XLA_FLAGS", flags)
    monkeypatch.setenv("NPROC", given)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    provide_threads()
    assert os.environ["NPROC"] == found


def test_side_effects_of_what_was_broken_off_do_not_keep_jax_from_forgetting(monkeypatch):
    tokens, cleared = ["broken"], []

    def clear():
        if tokens:
            raise RuntimeError("Gloo all-reduce failed")
        cleared.append(1)

    for name, contents in {
        "jax": {},
        "jax.extend": {},
        "jax.extend.backend": {"clear_backends": clear},
        "jax._src.dispatch": {"runtime_tokens": tokens},
    }.items():
        module = types.ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    private_runtime.clear_backends()
    assert cleared == [1]


def test_devices_that_an_abandoned_thread_finds_are_not_those_of_jax(monkeypatch):
    bridge = types.ModuleType("jax._src.xla_bridge")
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)
    go_on, found = threading.Event(), []
    bridge._backend_lock = threading.Lock()
    bridge._init_backend = lambda _platform: go_on.wait(5)
    private_runtime.disown_abandoned(bridge)

    def look():
        with contextlib.suppress(SystemExit), bridge._backend_lock:
            found.append(bridge._init_backend("cpu"))

    thread = threading.Thread(target=look)
    thread.start()
    private_runtime.abandon_backends(thread)
    with bridge._backend_lock:
        go_on.set()
        thread.join(5)
    assert found == []
    assert bridge._init_backend("cpu")


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (ModuleNotFoundError("No module named 'jax'"), FrameworkError, "No module named 'jax'"),
        (AttributeError("no _jax"), FrameworkError, "AttributeError"),
        (RuntimeError("too old"), FrameworkError, "RuntimeError: too old"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_jax_that_is_missing_or_broken_is_told_alike(monkeypatch, error, raised, words):
    class Broken(types.ModuleType):
        @property
        def __version__(self):
            raise error

    monkeypatch.setitem(sys.modules, "jax", Broken("jax"))
    monkeypatch.setitem(sys.modules, "jaxlib", types.ModuleType("jaxlib"))
    with pytest.raises(raised, match=words):
        private_runtime.import_jax()
