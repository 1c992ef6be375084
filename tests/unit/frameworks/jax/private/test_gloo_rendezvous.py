"""Ranks that wait for each other's gloo addresses, or connections, are released."""

import socket
import struct
import sys
from types import SimpleNamespace

import pytest

from jupyter_dist.frameworks.jax.private.gloo_rendezvous import release_members


class Service:
    """The coordination service, with the addresses that members of cliques have put."""

    def __init__(self, addresses):
        self.addresses = addresses

    def key_value_dir_get_bytes(self, directory):
        return [(key, each) for key, each in self.addresses.items() if key.startswith(directory)]

    def key_value_set_bytes(self, key, value):
        if key in self.addresses:
            raise RuntimeError("ALREADY_EXISTS")
        self.addresses[key] = value


@pytest.fixture
def form(monkeypatch):
    """Have JAX formed, as far as it matters, with device 0 in this process."""

    def form(addresses):
        service = Service(addresses)
        jax = SimpleNamespace(local_devices=lambda: [SimpleNamespace(id=0)])
        state = SimpleNamespace(client=service)
        monkeypatch.setitem(sys.modules, "jax", jax)
        monkeypatch.setitem(
            sys.modules, "jax._src.distributed", SimpleNamespace(global_state=state)
        )
        return service

    return form


def gloo_address(port, numbers):
    storage = struct.pack("=H", socket.AF_INET) + struct.pack("!H", port)
    storage += socket.inet_aton("127.0.0.1") + bytes(120)
    name = struct.pack("<Q", 2) + b"vm"
    return name + struct.pack("<Q", 136) + storage + bytes(8) + struct.pack("<3q", *numbers)


def test_members_that_have_not_come_get_an_address_that_gloo_refuses(form):
    service = form({"cpu:gloo/4096,2048,8192/0": b"put by a rank"})
    release_members()
    for member in (1, 2):
        found = service.addresses[f"cpu:gloo/4096,2048,8192/{member}"]
        assert found == struct.pack("<Q", 1) + b"-" + bytes(8)
    assert service.addresses["cpu:gloo/4096,2048,8192/0"] == b"put by a rank"


def test_whoever_waits_here_for_a_connection_gets_one_that_ends(form):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        form({f"cpu:gloo/0,2048,4096/{at}": gloo_address(port, (-1, 7, 8)) for at in range(3)})
        release_members()
        said = []
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                said.append(struct.unpack("<q", connection.recv(8))[0])
                assert connection.recv(1) == b""
        assert said == [7, 8]
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):  # others knock at their own doors
            listener.accept()


def test_addresses_of_another_shape_are_left_alone(form):
    form({"cpu:gloo/0/0": b"\xff" * 40})
    release_members()


def test_nothing_is_done_where_jax_was_never_formed(monkeypatch):
    monkeypatch.delitem(sys.modules, "jax._src.distributed", raising=False)
    release_members()
