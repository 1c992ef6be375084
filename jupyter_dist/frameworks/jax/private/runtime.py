"""The private parts of JAX that its mesh is made of, each behind one probe."""

import contextlib
import inspect
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

from jupyter_dist.errors import FrameworkError, UsageError
from jupyter_dist.frameworks.replacing import like, replace

DISTRIBUTED = "jax._src.distributed"
CLUSTERS = "jax._src.clusters"
BACKENDS = "jax._src.xla_bridge"

_FOREVER_S = 10_000_000
"""Whether ranks live is known otherwise; where JAX's own clocks run out it ends the process."""
_THREADS = "NPROC"
"""Says how many threads XLA on CPU has; it reads this when devices are made."""
_THREADS_OF_A_DEVICE = 2
"""Collectives of several devices of one process hold threads until all others have come: programs
that are launched without waiting need two for each device, with fewer all ranks wait for ever."""
_FORCED_DEVICES = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
_LOOPBACK = "127.0.0.1"
_EXEMPT = "no_grpc_proxy"
_CLIENT_OPTIONS: Mapping[str, object] = {
    "heartbeat_timeout": _FOREVER_S,
    "init_timeout": _FOREVER_S,
    "recoverable": True,
    "shutdown_on_destruction": False,
}


class Client(NamedTuple):
    """JAX's connection to its coordination service, taken out of JAX."""

    native: Any
    preemption: Any

    def shut_down(self) -> None:
        """Say goodbye; blocks when the service does not answer."""
        if self.preemption is not None and hasattr(self.preemption, "shutdown"):
            self.preemption.shutdown()
        self.native.shutdown()


class PrivateRuntime:
    """`jax._src.distributed`: initialize, shutdown, and the state between them."""

    def __init__(self, module: ModuleType) -> None:
        """Raises FrameworkError when this version of JAX is made otherwise."""
        self._module = module
        self._state = _probe(module, "global_state")
        self._initialize: Callable[..., None] = _probe(module, "initialize")
        _probe(module, "shutdown")
        for field in ("client", "service", "process_id", "num_processes"):
            _probe(self._state, field)
        self._signature = inspect.signature(self._initialize)
        self._native_name, native = _find_native(module)
        self._native = _RelayedNative(native)

    def replace(self, initialize: Callable[..., None], shutdown: Callable[[], None]) -> None:
        """Have ours called in the place of JAX's own."""
        setattr(self._module, self._native_name, self._native)
        for ours in (initialize, shutdown):
            theirs = getattr(self._module, ours.__name__)
            setattr(self._module, ours.__name__, like(theirs, ours))

    def connect(
        self,
        arguments: Mapping[str, object],
        relay_address: str,
        on_client: Callable[[object], None],
    ) -> None:
        """Call JAX's own initialize; its client connects to `relay_address`. May block forever.

        `on_client` is called with the client before JAX has it, and may refuse it by raising.
        """
        self._native.relay_address, self._native.on_client = relay_address, on_client
        if hasattr(self._module, "_CHECK_PROXY_ENVS"):  # it warns of what cannot happen here
            sys.modules["jax"].config.update("jax_check_proxy_envs", False)
        known = self._signature.parameters
        accepted = {key: value for key, value in arguments.items() if key in known}
        with _no_proxies():
            self._initialize(**accepted)

    def read(self, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of initialize by name; raises TypeError as it does."""
        try:
            return dict(self._signature.bind(*arguments, **options).arguments)
        except TypeError as error:
            raise TypeError(f"jax.distributed.initialize() {error}") from None

    def take_client(self) -> Client | None:
        """Take the connection out of JAX, which then is as if it had never been initialised."""
        state = self._state
        preemption = getattr(state, "preemption_sync_manager", None)
        client = None if state.client is None else Client(state.client, preemption)
        fields = {"client", "service", "preemption_sync_manager", "coordinator_address"}
        fields |= {"partition_index", "slice_index"}
        for field in fields:
            if hasattr(state, field):
                setattr(state, field, None)
        state.process_id, state.num_processes = 0, 1
        return client


class _RelayedNative:
    """JAX's native module as its `distributed` sees it: no service here, and ways of our own."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self.relay_address = ""
        self.on_client: Callable[[object], None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    @staticmethod
    def get_distributed_runtime_service(*_arguments: object, **_options: object) -> SimpleNamespace:
        """Start none: it runs in a process of its own, and is shut down by who has started it."""
        return SimpleNamespace(shutdown=lambda: None)

    def get_distributed_runtime_client(
        self, address: str, node_id: int, **options: object
    ) -> object:
        """Make a client that outlives its service."""
        make = self._native.get_distributed_runtime_client
        known = make.__doc__ or ""
        ours = {name: v for name, v in _CLIENT_OPTIONS.items() if re.search(rf"\b{name}\b", known)}
        client: object = make(self.relay_address or address, node_id, **{**options, **ours})
        if self.on_client is not None:
            self.on_client(client)
        return client


def import_jax() -> str:
    """Import JAX and give its versions, `jax 0.10.2 and jaxlib 0.10.2`; raises FrameworkError."""
    try:
        import jax
        import jaxlib

        theirs = getattr(jaxlib, "__version__", "") or "unknown"
        return f"jax {jax.__version__} and jaxlib {theirs}"
    except ImportError as error:
        raise FrameworkError(
            f"JAX cannot be imported: {error}. Install it on that host too."
        ) from error
    except Exception as error:
        raise FrameworkError(
            f"JAX cannot be imported: {type(error).__name__}: {error}. What is installed of it "
            "there is broken, or of versions that do not fit: install jax and jaxlib again."
        ) from error


def is_listening() -> bool:
    """Return whether JAX is formed in this process, with its service for preemption.

    It takes SIGTERM at one rank as a notice for all of them, once for each time it is formed.
    """
    state = getattr(sys.modules.get(DISTRIBUTED), "global_state", None)
    return getattr(state, "preemption_sync_manager", None) is not None


# --- backends ------------------------------------------------------------------------------------


def is_backend_made() -> bool:
    """Return whether JAX has its devices already: no mesh can be formed with them any more."""
    bridge = sys.modules.get(BACKENDS)
    made = getattr(bridge, "backends_are_initialized", None)
    return bool(made and made())


def clear_backends() -> None:
    """Make JAX forget its devices; local arrays stay readable."""
    from jax.extend.backend import clear_backends as clear

    try:
        clear()
    except Exception:  # a side effect of a program that was broken off: it stays in JAX's way
        tokens = getattr(sys.modules.get("jax._src.dispatch"), "runtime_tokens", None)
        if tokens is None:
            raise
        tokens.clear()
        clear()


def make_backends() -> None:
    """Have JAX find its devices, and those of the others; all ranks must do so together."""
    import jax

    jax.devices()


def abandon_backends(thread: threading.Thread) -> None:
    """Make JAX work without a thread that goes on to wait for devices, and holds its lock."""
    _ABANDONED.add(thread)
    bridge = sys.modules.get(BACKENDS)
    if hasattr(bridge, "_backend_lock"):
        bridge._backend_lock = threading.Lock()  # type: ignore[union-attr]  # noqa: SLF001
    if is_backend_made():
        clear_backends()


def is_present(client: object) -> bool:
    """Return whether devices of this client are those that stand now."""
    made = getattr(sys.modules.get(BACKENDS), "_backends", None)
    return made is None or any(client is each for each in tuple(made.values()))


def list_devices() -> Iterator[Any]:
    """Yield the devices that stand now, of every backend."""
    bridge = sys.modules.get(BACKENDS)
    for backend in dict(getattr(bridge, "_backends", {})).values():
        yield from backend.devices()


def disown_abandoned(bridge: ModuleType) -> None:
    """Have devices that were found too late, on an abandoned thread, not become JAX's."""

    def init_backend(theirs: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return theirs(*arguments, **options)
        finally:
            if threading.current_thread() in _ABANDONED:
                raise SystemExit  # which ends this thread only

    replace(bridge, "_init_backend", init_backend)


def call_before_backends(bridge: ModuleType, call: Callable[[], None]) -> None:
    """Have this called before JAX finds its devices; what it raises, the use of JAX does."""

    def backends(theirs: Callable[[], Any]) -> Any:
        if not is_backend_made():
            call()
        return theirs()

    if hasattr(bridge, "backends_are_initialized"):
        replace(bridge, "backends", backends)


def provide_threads() -> None:
    """Give XLA on CPU the threads that several devices of this process need to meet others."""
    devices = _count_cpu_devices()
    needed = _THREADS_OF_A_DEVICE * devices
    given = os.environ.get(_THREADS, "")
    if devices > 1 and (int(given) if given.isdecimal() else os.cpu_count() or 1) < needed:
        os.environ[_THREADS] = str(needed)


def _count_cpu_devices() -> int:
    """Return how many devices JAX is about to make of the cores."""
    config = getattr(sys.modules.get("jax"), "config", None)
    wanted = getattr(config, "jax_num_cpu_devices", None) or -1
    if wanted > 0:
        return int(wanted)
    forced = _FORCED_DEVICES.findall(os.environ.get("XLA_FLAGS", ""))
    return int(forced[-1]) if forced else 1


def refuse_unknown_platforms() -> None:
    """Raise UsageError for a platform in jax_platforms that no plugin offers."""
    import jax

    wanted = (getattr(jax.config, "jax_platforms", "") or "").split(",")
    bridge = sys.modules.get(BACKENDS)
    factories = getattr(bridge, "_backend_factories", None)
    if wanted == [""] or factories is None:
        return
    discover = getattr(bridge, "_discover_and_register_pjrt_plugins", None)
    if discover is not None and not set(wanted) <= set(factories):
        discover()
    aliases = getattr(bridge, "_alias_to_platforms", {})
    unknown = [one for one in wanted if not set(aliases.get(one, [one])) & set(factories)]
    known = sorted(factories)
    if unknown:
        raise UsageError(
            f"jax_platforms names {', '.join(map(repr, unknown))}, and JAX has {', '.join(known)} "
            "here. Change JAX_PLATFORMS, or install the plugin for it."
        )


# --- small ---------------------------------------------------------------------------------------


def _probe(owner: object, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        raise unknown_version(f"{getattr(owner, '__name__', owner)}.{name}") from None


def unknown_version(lacking: str) -> FrameworkError:
    """Return the error for a version of JAX that is made otherwise."""
    version = getattr(sys.modules.get("jax"), "__version__", "of this version")
    return FrameworkError(
        f"jupyter-dist does not know JAX {version}: it has no {lacking}. Install a version that "
        "docs/how_to/jax.md lists, or give jax.distributed.initialize all of its arguments."
    )


def _find_native(module: ModuleType) -> tuple[str, Any]:
    """Find the native module under the name that this version gives it."""
    for name, value in vars(module).items():
        if hasattr(value, "get_distributed_runtime_client"):
            return name, value
    raise unknown_version("get_distributed_runtime_client")


@contextlib.contextmanager
def _no_proxies() -> Iterator[None]:
    """Let gRPC go to this host without a proxy."""
    before = os.environ.get(_EXEMPT)
    exempt = before or os.environ.get("no_proxy") or ""
    os.environ[_EXEMPT] = ",".join(filter(None, (exempt, _LOOPBACK)))
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_EXEMPT, None)
        else:
            os.environ[_EXEMPT] = before


def keep(values: Iterable[object]) -> None:
    """Keep these until the process ends: destroying one that is in use would end it at once."""
    _KEPT.extend(values)


_KEPT: list[object] = []
_ABANDONED: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
