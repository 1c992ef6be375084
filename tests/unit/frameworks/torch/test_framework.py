import sys
import types

import pytest
from fakes.surroundings import FakeSurroundings

from jupyter_dist.errors import FrameworkError
from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.torch.forming import Forming
from jupyter_dist.frameworks.torch.framework import Torch
from jupyter_dist.frameworks.torch.private_c10d import MODULE
from jupyter_dist.frameworks.torch.request import Place


class Group:
    def __init__(self, size, sequence):
        self._size = size
        self._sequence = sequence

    def size(self):
        return self._size

    def _get_sequence_number_for_group(self):
        return self._sequence


@pytest.fixture
def module(monkeypatch):
    """What torch.distributed.distributed_c10d has of what is touched here."""
    module = types.ModuleType(MODULE)
    module.GroupMember = types.SimpleNamespace(WORLD=None)
    module._world = types.SimpleNamespace(pg_map={})
    module.said = []

    def init_process_group(backend=None, init_method=None, rank=-1, world_size=-1, store=None):
        module.said.append(("init", backend, rank, world_size))
        module.GroupMember.WORLD = Group(2, 5)
        module._world.pg_map = {module.GroupMember.WORLD: 1, Group(1, 9): 2}

    def destroy_process_group(group=None):
        module.said.append(("destroy", group))
        module.GroupMember.WORLD = None
        module._world.pg_map = {}

    def isend(tensor, dst=None, group=None, tag=0):
        (group or module.GroupMember.WORLD)._sequence += 1

    def send(tensor, dst=None, group=None, tag=0):
        module.isend(tensor, dst, group, tag)

    module.isend, module.send = isend, send
    module.init_process_group = init_process_group
    module.destroy_process_group = destroy_process_group
    for name in ("torch", "torch.distributed", "torch.distributed.device_mesh", MODULE):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return module


@pytest.fixture
def framework(module, monkeypatch):
    context = FakeSurroundings()
    framework = Torch(context, ImportHooks())
    framework.install()
    assert framework.formed() is None
    framework._take_over(module)

    def form(c10d, original, arguments, kept):
        original(**arguments)
        return kept or Place("env")

    monkeypatch.setattr(framework._forming, "form", form)
    return framework


def test_a_group_is_known_with_the_calls_of_all_ranks(framework, module):
    module.init_process_group("gloo")
    formed = framework.formed()
    assert (formed.name, formed.generation, formed.world_size) == ("torch", 1, 2)
    assert formed.calls == 5, "a group of fewer ranks has other counts on others"
    assert not formed.is_broken
    module.destroy_process_group()
    assert framework.formed() is None


def test_messages_between_two_ranks_do_not_count(framework, module):
    module.init_process_group("gloo")
    module.send("x", 1)
    module.send("x", 1, module.GroupMember.WORLD)
    module.send("x", dst=1, group=module.GroupMember.WORLD)
    assert framework.formed().calls == 5
    module.GroupMember.WORLD._sequence += 1
    assert framework.formed().calls == 6
    module.destroy_process_group()
    module.init_process_group("gloo")
    assert framework.formed().calls == 5


def test_a_group_that_was_torn_is_broken(framework, module):
    module.init_process_group("gloo")
    assert framework.explain(ValueError("gloo")) is None
    assert not framework.formed().is_broken
    framework.break_off(1, "raised")
    framework.explain(RuntimeError("gloo: closed"))
    assert framework.formed().is_broken
    framework.expect_cell()
    assert framework.formed().is_broken


def test_a_fake_group_and_a_second_one_are_torchs_affair(framework, module):
    module.init_process_group("fake")
    assert framework.formed() is None
    module.init_process_group("gloo")
    assert module.said[-1] == ("init", "gloo", -1, -1)
    assert framework.formed() is None


def test_arguments_that_do_not_exist_are_torchs_error(framework, module):
    with pytest.raises(TypeError, match="colour"):
        module.init_process_group(colour="red")


def test_the_wrapper_is_found_under_all_names(module, monkeypatch):
    copied = types.ModuleType("torch.distributed")
    copied.init_process_group = module.init_process_group
    monkeypatch.setitem(sys.modules, "torch.distributed", copied)
    Torch(FakeSurroundings(), ImportHooks())._take_over(module)
    assert copied.init_process_group is module.init_process_group
    assert module.init_process_group.__wrapped__ is not None


def test_a_torch_without_these_functions_is_left_alone():
    bare = types.ModuleType(MODULE)
    bare.GroupMember = types.SimpleNamespace(WORLD=None)
    framework = Torch(FakeSurroundings(), ImportHooks())
    framework._take_over(bare)
    assert framework.formed() is None
    framework.look()
    framework.leave()


class MeetingSurroundings(FakeSurroundings):
    """Remembers how long it would have waited."""

    timeout_s = 0.0

    def agree(self, claim, facts, timeout_s=60.0):
        self.timeout_s = timeout_s
        return super().agree(claim, facts, timeout_s)


@pytest.mark.parametrize(("cell_ranks", "timeout_s"), [((0, 1), 300.0), ((), 30.0)])
def test_others_hear_of_an_obstacle_within_the_time_of_a_generation(cell_ranks, timeout_s):
    context = MeetingSurroundings()
    context.cell_ranks = cell_ranks
    with pytest.raises(FrameworkError, match="ranks 0-1: stuck"):
        Forming(context, lambda: None).refuse("stuck")
    assert context.timeout_s == timeout_s
