"""Libraries on top of torch, as modules of their names that have what is touched."""

import contextlib
import os
import sys
import types

import msgspec
import pytest
from fakes.surroundings import FakeSurroundings

from jupyter_dist.errors import UsageError
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.torch.libraries import Libraries, ask_with_breakpoint

PACKAGES = {"torch", "accelerate", "lightning", "lightning_fabric", "pytorch_lightning"}


@pytest.fixture
def surroundings():
    return FakeSurroundings(rank=1, world_size=2)


@pytest.fixture
def imported(surroundings, tmp_path, monkeypatch):
    """Import a module of this name and code, as a rank does; gives the module."""
    monkeypatch.setattr(os, "environ", dict.copy(dict(os.environ)))
    for name in ("MASTER_ADDR", "MASTER_PORT", "ACCELERATE_USE_CPU"):
        os.environ.pop(name, None)
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        monkeypatch.delitem(sys.modules, name)  # the true ones may be here
    monkeypatch.syspath_prepend(tmp_path)
    hooks = ImportHooks()
    monkeypatch.setattr(sys, "meta_path", [hooks, *sys.meta_path])
    places = []

    def prepare():
        Libraries(surroundings, places.append).install(hooks)

    for name in ("accelerate", "lightning", "lightning_fabric", "pytorch_lightning"):
        hooks.before(name, prepare)
    hooks.after("torch.distributed", ask_with_breakpoint)

    def import_it(name, code=""):
        folder = tmp_path
        for part in name.split(".")[:-1]:
            folder = folder / part
            folder.mkdir(exist_ok=True)
            (folder / "__init__.py").touch()
        (folder / f"{name.rpartition('.')[2]}.py").write_text(code)
        __import__(name)
        return sys.modules[name]

    before = set(sys.modules)
    import_it.places = places
    yield import_it
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_before_accelerate_and_lightning_a_place_with_any_port_is_named(imported):
    imported("accelerate")
    assert imported.places == ["127.0.0.1:0"]


def test_a_place_that_the_user_has_named_stays(imported):
    os.environ["MASTER_PORT"] = "12355"
    imported("lightning_fabric")
    assert imported.places == []


def test_on_several_hosts_no_place_is_named(imported, surroundings):
    surroundings.info = msgspec.structs.replace(surroundings.info, world_size=4)
    imported("pytorch_lightning")
    assert imported.places == []


@pytest.mark.parametrize(("has_gpu", "found"), [(False, "true"), (True, None)])
def test_accelerate_uses_cpus_where_there_is_nothing_else(imported, monkeypatch, has_gpu, found):
    torch = types.ModuleType("torch")
    torch.accelerator = types.SimpleNamespace(is_available=lambda: has_gpu)
    monkeypatch.setitem(sys.modules, "torch", torch)
    imported("accelerate.state")
    assert os.environ.get("ACCELERATE_USE_CPU") == found


LAUNCHERS = (
    "def notebook_launcher(function, args=(), **options):\n    raise AssertionError('forks')"
)
UTILS = "def patch_environment(**values):\n    return made(values)"


def test_a_function_for_launchers_is_called_in_place(imported):
    module = imported("accelerate.launchers", LAUNCHERS)
    seen = []
    utils = imported("accelerate.utils", UTILS)
    utils.made = lambda values: contextlib.nullcontext(seen.append(values))
    assert module.notebook_launcher(max, (2, 3), num_processes=2, mixed_precision="BF16") == 3
    assert module.notebook_launcher(max, args=(2, 3), use_port="1") == 3
    assert seen[0] == {"accelerate_mixed_precision": "bf16"}
    with pytest.raises(UsageError, match=r"num_processes=3, .* 2 ranks"):
        module.notebook_launcher(max, (2, 3), 3)


@pytest.mark.parametrize("package", ["lightning.pytorch", "lightning.fabric", "lightning_fabric"])
def test_launchers_of_lightning_that_start_processes_are_refused(imported, package):
    name = f"{package}.strategies.launchers.multiprocessing"
    module = imported(name, "class _MultiProcessingLauncher: ...")
    with pytest.raises(UsageError, match='strategy="ddp" and devices=2'):
        module._MultiProcessingLauncher(None, start_method="fork")


def test_lightning_leaves_the_number_of_ranks_in_the_environment(imported):
    module = imported(
        "lightning.fabric.plugins.environments.lightning",
        "class LightningEnvironment:\n    def teardown(self): raise AssertionError('deletes it')",
    )
    module.LightningEnvironment().teardown()


@pytest.mark.parametrize("name", ["_make_distributed_pdb", "_DistributedPdb"])
def test_the_debugger_of_torch_does_what_breakpoint_does(imported, monkeypatch, name):
    asked = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: asked.append(1))
    module = imported("torch.distributed", f"{name} = None")
    debugger = getattr(module, name)()
    debugger.message("Type 'up'")
    debugger.set_trace()
    assert asked == [1]
