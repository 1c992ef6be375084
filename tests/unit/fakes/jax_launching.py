"""As much of JAX's private parts as launches programs, with programs that do what a test says."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np

from jupyter_dist.frameworks.import_hooks import ImportHooks

ALL_REDUCE = "HloModule jit_step\n  ROOT %r = f32[8]{0} all-reduce(%p), replica_groups={{0,1}}\n"
ADD = "HloModule jit_add\n  ROOT %r = f32[8]{0} add(%p, %p)\n"


class FakeOutput:
    """An array that becomes ready when it is told, or an error."""

    def __init__(self, nbytes=4, is_ready=True):
        self.nbytes = nbytes
        self._is_ready = is_ready
        self._error = None
        self._is_deleted = False

    def become_ready(self, error=None):
        self._is_ready, self._error = True, error

    def delete(self):
        self._is_deleted = True

    def is_deleted(self):
        return self._is_deleted

    def is_ready(self):
        if self._is_deleted:
            raise RuntimeError("Array has been deleted.")
        return self._is_ready

    def block_until_ready(self):
        assert self._is_ready, "a wait in C++ cannot be interrupted"
        if self._error is not None:
            raise self._error


class FakeProgram:
    """What `run` does when it is launched, on devices of these processes; this one is 0."""

    def __init__(self, run, processes=(0, 1), text=ALL_REDUCE, name="jit(step)"):
        devices = [SimpleNamespace(id=2048 * at, process_index=at) for at in processes]
        module = SimpleNamespace(to_string=lambda: text)
        self.run = run
        self.name = name
        self.xla_executable = SimpleNamespace(
            local_devices=lambda: [each for each in devices if each.process_index == 0],
            hlo_modules=lambda: [module],
        )
        sharding = SimpleNamespace(_device_assignment=devices)
        self.in_handler = SimpleNamespace(in_shardings=[sharding])
        aval = np.zeros(8, np.float32)
        self.out_handler = SimpleNamespace(out_shardings=[sharding], out_avals=[aval])

    def __call__(self, *args):
        return self.run(*args)


def put_in_place(monkeypatch, launches, lacking=()):
    """Have JAX imported as far as it matters; gives the class of programs, and pjit."""
    kind = type("ExecuteReplicated", (FakeProgram,), {"__call__": FakeProgram.__call__})
    pjit = SimpleNamespace(_get_fastpath_data=lambda executable: f"fast {executable}")
    make = "make_gloo_tcp_collectives"
    library = SimpleNamespace(**({} if make in lacking else {make: lambda: "gloo"}))
    parts = {
        "jax._src.interpreters.pxla": {"ExecuteReplicated": kind},
        "jax._src.pjit": vars(pjit),
        "jax._src.xla_bridge": {"_jax": library},
        "jax": {"typeof": lambda value: value, "__version__": "0.0"},
    }
    for name, contents in parts.items():
        module = ModuleType(name)
        vars(module).update({key: each for key, each in contents.items() if key not in lacking})
        monkeypatch.setitem(sys.modules, name, module)
    launches.install(ImportHooks())
    return kind, sys.modules["jax._src.pjit"]
