import gc
import os
import re
import select
import socket
import sys
import time
import types
import weakref
from time import monotonic

import pytest
from fakes.surroundings import FakeSurroundings

from jupyter_dist.frameworks.import_hooks import ImportHooks
from jupyter_dist.frameworks.torch.forming import _EARLIEST, Origins
from jupyter_dist.frameworks.torch.framework import Torch
from jupyter_dist.frameworks.torch.framework import recorder_variables as variables
from jupyter_dist.frameworks.torch.groups import HELD_S, DestroyedGroups, Groups
from jupyter_dist.frameworks.torch.stale_refs import name_belongings
from jupyter_dist.frameworks.torch.store import hang_up
from jupyter_dist.model.hosts.addresses import join_address
from tests.patience import wait_until

# --- the flight recorder ---------------------------------------------------------------------


def test_the_recorder_is_switched_on_by_names_that_each_version_knows():
    new = variables((2, 13), "/run")
    assert new["TORCH_FR_BUFFER_SIZE"] == "2000"
    assert new["TORCH_FR_DUMP_TEMP_FILE"] == "/run/torch_rank_"
    assert not any("TRACE_BUFFER" in name for name in new), "2.13 warns of the old name"
    assert variables((2, 6), "/run")["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "2000"


def test_what_the_user_has_set_stays(monkeypatch):
    for name in variables((0,), ""):
        monkeypatch.setenv(name, "mine")
    Torch(FakeSurroundings(), ImportHooks())._switch_on_recorder()
    assert {os.environ[name] for name in variables((0,), "")} == {"mine"}


# --- variables of the environment ------------------------------------------------------------


def test_each_variable_is_told_with_the_cell_that_has_set_it():
    environment = {"A": "1"}
    origins = Origins(("A", "B", "C"), environment)
    origins.enter_cell("In[1]")
    environment["B"] = "2"
    origins.enter_cell("In[2]")
    origins.enter_cell("In[3]")
    environment["C"] = "3"
    told = origins.describe(("A", "B", "C"))
    since = re.findall(r"(\w)='(\d)' \(.*? since (.*?)\)", told)
    assert since == [("A", "1", _EARLIEST), ("B", "2", "In[1]"), ("C", "3", "In[3]")]


def test_a_variable_that_is_gone_is_not_told():
    environment = {"A": "1"}
    origins = Origins(("A",), environment)
    del environment["A"]
    assert origins.describe(("A",)) == ""
    origins.enter_cell("In[7]")
    environment["A"] = "1"
    assert origins.describe(("A",)) == "A='1' (in os.environ since In[7])"


# --- connections -----------------------------------------------------------------------------


def test_groups_are_kept_until_they_are_destroyed():
    standing = ["default", "half"]
    groups = Groups(lambda: standing)
    with (
        select.epoll() as another,
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as near,
        listener.accept()[0] as far,
    ):
        another.register(far.fileno())
        with groups.making() as made:
            poller = select.epoll()
            made.append("half")
        with poller:
            poller.register(near.fileno())
            assert groups.shut_down() == 1
            far.settimeout(5)
            assert far.recv(1) == b""
            standing.remove("half")
            groups.forget_destroyed()
            assert groups.shut_down() == 0


def test_a_group_that_was_not_made_is_not_kept():
    groups = Groups(list)
    with pytest.raises(LookupError), groups.making():
        raise LookupError
    assert groups.shut_down() == 0


class Group:
    """Something of which it can be seen whether it lives."""


def test_a_group_outlives_its_last_user_by_a_moment():
    departed, group = DestroyedGroups(), Group()
    alive = weakref.ref(group)
    departed.hold([group])
    del group
    departed.let_go(monotonic())
    gc.collect()
    assert alive() is not None
    departed.let_go(monotonic() + HELD_S)
    wait_until(lambda: alive() is None, 10, "the group is gone")


def test_nothing_held_is_nothing_to_do():
    DestroyedGroups().let_go()


def test_only_connections_to_the_store_are_hung_up():
    with (
        socket.create_server(("127.0.0.1", 0)) as store,
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.socket(socket.AF_INET6) as to_store,
        socket.create_connection(other.getsockname()) as to_other,
        other.accept()[0] as far,
    ):
        to_store.connect((f"::ffff:{store.getsockname()[0]}", store.getsockname()[1]))
        hang_up(join_address(*store.getsockname()))
        to_store.settimeout(5)
        assert to_store.recv(1) == b""
        to_other.sendall(b"x")
        assert far.recv(1) == b"x"


def test_looking_for_connections_leaves_no_descriptor_open(tmp_path):
    with (tmp_path / "file").open("w"), select.epoll(), socket.create_server(("127.0.0.1", 0)):
        hang_up("127.0.0.1:9")  # lets Python open what it opens once
        before = len(os.listdir("/proc/self/fd"))
        hang_up("127.0.0.1:9")
        assert len(os.listdir("/proc/self/fd")) == before


# --- belongings ------------------------------------------------------------------------------


@pytest.fixture
def ddp(monkeypatch):
    """A class in the place of torch's, so that torch is not needed."""
    module = types.ModuleType("torch.nn.parallel.distributed")
    module.DistributedDataParallel = type("DistributedDataParallel", (), {})
    tensors = types.ModuleType("torch.distributed.tensor")
    tensors.DTensor = type("DTensor", (), {})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, tensors.__name__, tensors)
    return module.DistributedDataParallel


def test_variables_of_a_group_are_named_with_what_to_do(ddp):
    tensor = sys.modules["torch.distributed.tensor"].DTensor()
    optimizer = types.SimpleNamespace(param_groups=[{"params": [tensor]}])
    told = name_belongings({"n": 3, "model": ddp(), "parts": [1, tensor], "adam": optimizer})
    adam, model, parts = told.split("; ")
    assert adam.startswith("adam (optimizer): ")
    assert model == "model (DDP): model = DistributedDataParallel(model.module)"
    assert parts.startswith("parts (DTensor): ")
    assert parts.endswith(" parts.to_local()")


def test_many_variables_are_counted(ddp):
    told = name_belongings({f"model{number}": ddp() for number in range(11)})
    assert told.endswith("; and 3 more")


def test_nothing_is_said_of_other_variables(ddp):
    assert name_belongings({"n": 3, "names": ["a"], "table": {"a": time}}) == ""


def test_objects_that_cannot_be_looked_at_are_left_out(ddp):
    class Shy:
        def __getattr__(self, name):
            raise LookupError(name)

    told = name_belongings({"model": ddp(), "shy": Shy()})
    assert told == "model (DDP): model = DistributedDataParallel(model.module)"
