import os
import select
import socket
import sys
import threading
import time
import types

import pytest

from jupyter_dist.errors import PeerFailed
from jupyter_dist.frameworks.torch.belongings import name_belongings
from jupyter_dist.frameworks.torch.groups import Groups
from jupyter_dist.frameworks.torch.recorder import switch_on, variables
from jupyter_dist.frameworks.torch.store import (
    _on_a_thread,
    format_address,
    hang_up,
    parse_address,
)

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
    switch_on("/run")
    assert {os.environ[name] for name in variables((0,), "")} == {"mine"}


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


def test_addresses_are_written_and_read():
    for host, port in (("10.0.0.2", 41234), ("fd00::2", 5)):
        assert parse_address(format_address(host, port)) == (host, port)


def test_only_connections_to_the_store_are_hung_up():
    with (
        socket.create_server(("127.0.0.1", 0)) as store,
        socket.create_server(("127.0.0.1", 0)) as other,
        socket.socket(socket.AF_INET6) as to_store,
        socket.create_connection(other.getsockname()) as to_other,
        other.accept()[0] as far,
    ):
        to_store.connect((f"::ffff:{store.getsockname()[0]}", store.getsockname()[1]))
        hang_up(format_address(*store.getsockname()))
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


def test_a_connection_that_nobody_answers_is_given_up():
    never = threading.Event()

    def look_around():
        raise PeerFailed(0, "is lost")

    with pytest.raises(PeerFailed, match="rank 0 is lost"):
        _on_a_thread(never.wait, look_around)
    never.set()
    assert _on_a_thread(lambda: 7, look_around) == 7
    with pytest.raises(RuntimeError, match="refused"):
        _on_a_thread(refuse, look_around)


def refuse():
    raise RuntimeError("refused")


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
    assert told.split("; ") == [
        "adam (optimizer): make it anew for the parameters of the new module",
        "model (DDP): model = DistributedDataParallel(model.module)",
        "parts (DTensor): this rank still has its part, parts.to_local()",
    ]


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
