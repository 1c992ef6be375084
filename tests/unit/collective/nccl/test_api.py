"""The bindings of NCCL that are found, and what they must keep."""

import gc
import sys
import weakref
from types import ModuleType, SimpleNamespace

import pytest
from fakes.nccl_library import SYSTEM_ERROR, FakeNcclError

from jupyter_dist.collective.nccl.api import Nccl4py, find_api
from jupyter_dist.errors import CommunicatorError

LAUNCHES = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "send", "recv"),
    *("group_start", "group_end", "comm_get_async_error", "comm_finalize"),
)


def put_in_place(monkeypatch, name, **content):
    """Have `import name` give a module with this, and its parents be empty."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        module = ModuleType(".".join(parts[:count]))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        if count > 1:
            setattr(sys.modules[".".join(parts[: count - 1])], parts[count - 1], module)
    vars(module).update(content)


def test_the_name_of_a_communicator_lives_as_long_as_it_does():
    names = []

    class Binding(SimpleNamespace):
        UniqueId = SimpleNamespace(from_buffer=bytes)

        class Config:
            """Keeps what it is given, as nccl4py's does, while NCCL has the pointer only."""

        def comm_init_rank_config(self, size, identity, rank, config):
            names.append(weakref.ref(config))
            return 77

    api = Nccl4py(Binding(**dict.fromkeys(LAUNCHES), NCCLError=RuntimeError, comm_abort=print))
    handle = api.init(1, bytes(128), 0, "jupyter-dist")
    gc.collect()
    assert names[0]() is not None
    api.abort(handle)
    assert names[0]() is None


@pytest.mark.parametrize("is_there", [True, False])
def test_cupys_binding_tells_why_nccl4py_does_not_serve(is_there, monkeypatch):
    def fail():
        raise RuntimeError("libnccl.so.2 missing\nsearched: everywhere")

    found = SimpleNamespace(available=is_there, NcclError=FakeNcclError, groupStart=0, groupEnd=0)
    put_in_place(monkeypatch, "nccl.bindings.nccl", get_version=fail)
    put_in_place(monkeypatch, "cupy.cuda.nccl")
    monkeypatch.setattr(sys.modules["cupy.cuda"], "nccl", found)
    if not is_there:
        with pytest.raises(CommunicatorError, match=r"libnccl\.so\.2 missing\)"):
            find_api()
        return
    api = find_api()
    assert api.name == "cupy"
    assert "libnccl.so.2 missing" in api.explain(None, SYSTEM_ERROR)
    assert "everywhere" not in api.explain(None, SYSTEM_ERROR)
