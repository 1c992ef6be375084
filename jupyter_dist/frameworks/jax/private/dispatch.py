"""Private parts of JAX that launch programs: put behind a call of ours, and nowhere else known.

A program that spans processes is never launched by C++ alone, so that each launch is seen. What a
version of JAX lacks is told once; all else works on.
"""

import functools
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.jax.private.programs import Program, devices_of
from jupyter_dist.frameworks.replacing import replace

PXLA, PJIT, BRIDGE = "jax._src.interpreters.pxla", "jax._src.pjit", "jax._src.xla_bridge"

_Plain = Callable[..., Any]
Launch = Callable[[Program, Callable[[], Sequence[Any]]], Sequence[Any]]
"""Gets what is to be launched and the call that does it; gives its outputs."""


class PrivateDispatch:
    """Hands each launch of a program that spans processes to `launch`.

    While a factory of gloo's runs, `watch` is open; `tell` gets what this JAX lacks.
    """

    def __init__(
        self,
        launch: Launch,
        watch: Callable[[], AbstractContextManager[None]],
        tell: Callable[[str], None],
    ) -> None:
        self._launch = launch
        self._watch = watch
        self._tell = tell
        self._kind: type[Any] | None = None
        self._version = ""
        self._is_strange = False
        self._programs: weakref.WeakKeyDictionary[Any, Program | None] = weakref.WeakKeyDictionary()
        """By executable; None: all its devices are of this process."""
        self._lacking = {
            "pxla.ExecuteReplicated": "its programs are not seen: no record, no --check",
            "pjit._get_fastpath_data": "a program is seen once only: later calls have no record",
            "make_gloo_tcp_collectives": "a collective on CPUs that is stuck cannot be broken off",
        }
        """What has not been found yet, and what does not work without it."""

    def install(self, hooks: ImportHooks) -> None:
        """Take our places as soon as JAX is imported."""
        hooks.after(PXLA, self._wrap_executables)
        hooks.after(PJIT, self._wrap_fast_path)
        hooks.after(BRIDGE, self._wrap_gloo)
        hooks.after("jax", self._tell_lacking)

    def _tell_lacking(self, jax: ModuleType) -> None:
        self._version = getattr(jax, "__version__", "of unknown version")
        for name, consequence in self._lacking.items():
            self._tell(
                f"JAX {self._version} has no {name}, which jupyter-dist uses: {consequence}."
            )

    # --- programs ----------------------------------------------------------------------------

    def _wrap_executables(self, pxla: ModuleType) -> None:
        kind = self._kind = getattr(pxla, "ExecuteReplicated", None)
        if kind is None:
            return
        del self._lacking["pxla.ExecuteReplicated"]
        plain_call = kind.__call__

        @functools.wraps(plain_call)
        def launch(executable: Any, *args: Any) -> Any:
            program = self.find_program(executable, args)
            if program is None:
                return plain_call(executable, *args)
            return self._launch(program, lambda: plain_call(executable, *args))

        kind.__call__ = launch
        self._wrap_compiled(pxla)
        self._wrap_old_pmap(pxla)

    def _wrap_compiled(self, pxla: ModuleType) -> None:
        """Have `jit(f).lower(x).compile()` launched by Python too."""

        def create_cpp_call(plain: _Plain, executable: Any, *args: Any, **kwargs: Any) -> Any:
            return None if self._is_wide(executable) else plain(executable, *args, **kwargs)

        replace(getattr(pxla, "MeshExecutable", None), "create_cpp_call", create_cpp_call)

    def _wrap_old_pmap(self, pxla: ModuleType) -> None:
        """Hide from pmap of old that it could go to C++ directly; newer ones use jit."""

        def xla_pmap_impl_lazy(plain: _Plain, *args: Any, **kwargs: Any) -> Any:
            call, *rest = plain(*args, **kwargs)
            if self._kind is not None and isinstance(call, self._kind) and self._spans(call):
                call = functools.partial(self._kind.__call__, call)
            return (call, *rest)

        replace(pxla, "xla_pmap_impl_lazy", xla_pmap_impl_lazy)

    def _wrap_fast_path(self, pjit: ModuleType) -> None:
        """Let C++ remember only programs of this process alone."""

        def get_fastpath_data(plain: _Plain, *args: Any, **kwargs: Any) -> Any:
            if any(self._is_wide(value) for value in (*args, *kwargs.values())):
                return None
            return plain(*args, **kwargs)

        if replace(pjit, "_get_fastpath_data", get_fastpath_data):
            del self._lacking["pjit._get_fastpath_data"]

    def find_program(self, executable: Any, args: Sequence[Any]) -> Program | None:
        """Return the program of an executable; None: it does not leave this process."""
        try:
            return self._programs[executable]
        except KeyError:
            program = self._programs[executable] = self._look_into(executable, args)
            return program

    def _look_into(self, executable: Any, args: Sequence[Any]) -> Program | None:
        try:
            devices = devices_of(executable)
            is_wide = len(devices) > len(executable.xla_executable.local_devices())
            return Program(executable, devices, args) if is_wide else None
        except AttributeError as error:
            self._tell_strange(error)
            return None

    def _tell_strange(self, error: AttributeError) -> None:
        """Tell once that programs of this version cannot be looked into."""
        if not self._is_strange:
            self._is_strange = True
            self._tell(
                f"JAX {self._version} makes its programs otherwise than jupyter-dist knows "
                f"({error}): some have no record, no --check."
            )

    def _spans(self, executable: Any) -> bool:
        if executable in self._programs:
            return self._programs[executable] is not None
        try:
            return len(devices_of(executable)) > len(executable.xla_executable.local_devices())
        except AttributeError as error:
            self._tell_strange(error)
            return False

    def _is_wide(self, value: Any) -> bool:
        """Return whether this is a compiled function whose devices are not all of this process."""
        call = getattr(value, "unsafe_call", None)
        return self._kind is not None and isinstance(call, self._kind) and self._spans(call)

    # --- gloo --------------------------------------------------------------------------------

    def _wrap_gloo(self, bridge: ModuleType) -> None:
        """Watch what gloo opens; where its factory is, depends on the version."""

        def make(plain: _Plain, *args: Any, **kwargs: Any) -> Any:
            with self._watch():
                return plain(*args, **kwargs)

        client, name = getattr(bridge, "xla_client", None), "make_gloo_tcp_collectives"
        places = (getattr(bridge, "_jax", None), getattr(client, "_xla", None))
        if any(replace(library, name, make) for library in places):
            del self._lacking[name]
